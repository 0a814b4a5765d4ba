// Writes the library to dist/ and the pages into the provider's package; the same sources give the same bytes.
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { extname, join } from "node:path";
import { build } from "esbuild";
import { bundleLibrary, here } from "./bundle.mjs";

const dist = join(here, "dist");
const sources = join(here, "pages");
const published = join(here, "..", "src", "tacit", "provider", "pages");
const copied = new Set([".html", ".css", ".json", ".svg"]);

await rm(dist, { recursive: true, force: true });
await mkdir(dist);
await writeFile(join(dist, "tacit.js"), await bundleLibrary());

// The package on npm has no pages.
const names = (await readdir(sources).catch(() => [])).sort();
if (names.length) await publishPages();

async function publishPages() {
  const scripts = await scriptsOf(names.filter((name) => extname(name) === ".html"));
  await rm(published, { recursive: true, force: true });
  await mkdir(published, { recursive: true });
  await build({
    absWorkingDir: here, entryPoints: scripts.map((name) => join(sources, `${name}.ts`)), outdir: published,
    bundle: true, minify: true, format: "esm", target: "es2022", charset: "utf8", legalComments: "none",
  });
  for (const name of names.filter((name) => copied.has(extname(name)))) {
    await copyFile(join(sources, name), join(published, name));
  }
}

/** The scripts that pages load as assets/NAME.js: each is bundled from NAME.ts. */
async function scriptsOf(pages) {
  const texts = await Promise.all(pages.map((name) => readFile(join(sources, name), "utf8")));
  const found = texts.flatMap((text) => [...text.matchAll(/assets\/([\w-]+)\.js/g)].map((match) => match[1]));
  return [...new Set(found)].sort();
}
