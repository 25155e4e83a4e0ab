// Bundles the front-end into eagerflow_widgets/static: one module for all views, its style, and the
// worker that lays graphs out, which a page asks for when it draws its first graph. And the extension
// of JupyterLab into labextensions/eagerflow, as JupyterLab finds it below share/jupyter.
import { build } from "esbuild";
import { readFile, rm, writeFile } from "node:fs/promises";

const [out, lab] = ["eagerflow_widgets/static", "labextensions/eagerflow"];
await Promise.all([out, lab].map((folder) => rm(folder, { recursive: true, force: true })));
const common = { bundle: true, minify: true, format: "esm", target: "es2022", legalComments: "none" };
await Promise.all([
  build({ ...common, entryPoints: { index: "src/index.ts" }, outdir: out }),
  build({ ...common, entryPoints: { layout: "src/layout/worker.ts" }, outdir: out }),
  build({ ...common, format: "iife", entryPoints: { panel: "src/lab/extension.ts" }, outdir: lab }),
]);
const [, version] = /__version__ = "(.*)"/.exec(await readFile("../eagerflow/__init__.py", "utf8"));
const about = {
  name: "eagerflow", version, description: "Views of eagerflow in panels of their own", license: "Apache-2.0",
  jupyterlab: { extension: true, _build: { load: "panel.js", extension: "./extension" } },
};
await writeFile(`${lab}/package.json`, JSON.stringify(about, null, 2) + "\n");
