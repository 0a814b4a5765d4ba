// The library as one module: bundled by esbuild, minified by terser, which also puts functions that are used once in place.
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { minify } from "terser";

export const here = dirname(fileURLToPath(import.meta.url));

/** Returns the text of the library; the same sources give the same text. */
export async function bundleLibrary() {
  const { outputFiles } = await build({
    absWorkingDir: here, entryPoints: ["src/index.ts"], bundle: true, format: "esm", target: "es2022", charset: "utf8",
    minifySyntax: true, legalComments: "none", write: false,
  });
  const { code } = await minify(outputFiles[0].text, { module: true, ecma: 2020, compress: { passes: 3 } });
  return `${code}\n`;
}
