export const here: string;
export function bundleLibrary(): Promise<string>;
