import { Graphviz } from "@hpcc-js/wasm-graphviz";
import { beforeAll, expect, test } from "vitest";
import { contentsOf, groupsToOpen, type Contents } from "../src/graph/contents";
import { GroupTree } from "../src/graph/groups";
import { Arrangement } from "../src/layout/arrangement";
import { readLayout, writeDot } from "../src/layout/dot";
import type { Layouts } from "../src/layout/layouts";
import { scaleIn, type Flow, type Layout, type Size } from "../src/layout/types";
import { last, layers, wideStep } from "./made";

let graphviz: Graphviz;
beforeAll(async () => {
  graphviz = await Graphviz.load();
});

function lay(contents: Contents, flow: Flow): Layout {
  return readLayout(graphviz.layout(writeDot(contents, flow), "json0" as "json", "dot"), contents, flow);
}

async function arranged(contents: Contents, room: Size): Promise<Layout> {
  const layouts = {
    ready: true, abandon: () => undefined,
    lay: (part: Contents, flow: Flow) => Promise.resolve(lay(part, flow)),
  } as unknown as Layouts; // prettier-ignore
  return (await last(new Arrangement(layouts).anew(contents, room)))!;
}

function chain(): Contents {
  const tree = new GroupTree(layers(3, 5), "scope");
  return contentsOf(tree, groupsToOpen(tree, 20));
}

test("a graph is drawn the way in which its text is largest", async () => {
  const contents = chain();
  const [low, high] = [{ width: 1200, height: 200 }, { width: 300, height: 700 }];
  const [wide, tall] = [await arranged(contents, low), await arranged(contents, high)];
  expect([wide.flow, tall.flow]).toEqual(["right", "down"]);
  expect(scaleIn(wide, low)).toBeGreaterThan(scaleIn(tall, low));
  expect(scaleIn(tall, high)).toBeGreaterThan(scaleIn(wide, high));
});

test("what runs one after the other lies from left to right, or from above to below", () => {
  const contents = chain();
  for (const [flow, axis] of [["right", "x"], ["down", "y"]] as const) {
    const { boxes } = lay(contents, flow);
    const places = Array.from({ length: 15 }, (_, node) => boxes.get(`n${node}`)![axis]);
    expect(places).toEqual([...places].sort((a, b) => a - b));
  }
});

test("a derivative is beside its op, whichever way a step is drawn", () => {
  const tree = new GroupTree(wideStep(3), "scope");
  const contents = contentsOf(tree, groupsToOpen(tree, 60));
  for (const [flow, axis] of [["right", "x"], ["down", "y"]] as const) {
    const { boxes } = lay(contents, flow);
    const off = [...contents.beside].filter(([box]) => box.group === null)
      .map(([box, op]) => Math.abs(boxes.get(box.id)![axis] - boxes.get(op.id)![axis])); // prettier-ignore
    expect(off.filter((far) => far < 60).length).toBeGreaterThan(0.6 * off.length);
  }
});
