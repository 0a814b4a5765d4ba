/** Numbers as people read them. */

const COUNT = new Intl.NumberFormat("en");
const UNITS = ["bytes", "kB", "MB", "GB", "TB"];

/** A count, with separators. */
export function count(value: number): string {
  return COUNT.format(value);
}

/** A count with its noun, which takes an s unless it is one. */
export function counted(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** A probability in per cent, with as many digits as tell neighbours apart. */
export function percent(chance: number): string {
  const hundredths = chance * 100;
  if (chance < 1 && hundredths > 99) return `${Math.floor(hundredths * 100) / 100}\u00a0%`;
  return `${hundredths < 10 ? hundredths.toPrecision(2) : hundredths.toFixed(0)}\u00a0%`;
}

/** A number with at most so many decimals, and no zeros at the end. */
export function decimal(value: number, places = 2): string {
  return String(Number(value.toFixed(places)));
}

/** A bound, rounded so that it stays one. */
export function upwards(value: number, places: number): number {
  return Math.ceil(value * 10 ** places) / 10 ** places;
}

/** A size in bytes, in thousands. */
export function bytes(value: number): string {
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) [value, unit] = [value / 1000, unit + 1];
  return `${unit === 0 ? count(value) : value.toFixed(1)} ${UNITS[unit]}`;
}
