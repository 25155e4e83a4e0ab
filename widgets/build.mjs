// Bundles the front-end into eagerflow_widgets/static: one module for all views, its style, and the
// worker that lays graphs out, which a page asks for when it draws its first graph.
import { build } from "esbuild";
import { rm } from "node:fs/promises";

const out = "eagerflow_widgets/static";
await rm(out, { recursive: true, force: true });
const common = { bundle: true, minify: true, format: "esm", target: "es2022", legalComments: "none" };
await Promise.all([
  build({ ...common, entryPoints: { index: "src/index.ts" }, outdir: out }),
  build({ ...common, entryPoints: { layout: "src/layout/worker.ts" }, outdir: out }),
]);
