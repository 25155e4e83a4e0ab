/** The details of a chosen box, and the overview of a graph. */

import { button, html } from "../dom";
import { bytes, clip, count, seconds, share } from "../format";
import { number } from "../feed/tables";
import { taskOf } from "../feed/tasks";
import { Bars } from "../views/bars";
import type { Activity } from "./activity";
import type { Box } from "./contents";
import { walk, type Group, type GroupTree } from "./groups";
import { layerName, overlapText, PHASES, type LayerCost, type Layers } from "./layers";
import { crossingsOf, operandsOf, usersOf } from "./neighbours";
import type { Structure } from "./structure";

/** number of nodes in the overview */
const SLOWEST = 5;
/** number of layers in the overview */
const DEAREST = 6;
/** number of links between tasks in the overview */
const LINKS = 12;
const NOT_YET = "No step was observed yet: times of layers and nodes come with the first.";
const NOT_TIMED = "What nodes take at tasks is not measured: the timeline shows their regions.";

type Line = readonly [term: string, text: string];

export function detailsOf(box: Box, tree: GroupTree, activity: Activity | null): HTMLElement {
  const s = tree.structure;
  const lines = box.node >= 0 ? nodeLines(box, s, activity) : otherLines(box, tree, activity);
  const parts: HTMLElement[] = [html("h4", {}, box.lines.join(" ")), listOf(lines)];
  if (box.node >= 0 && activity) parts.push(...valueOf(box.node, activity));
  return html("div", {}, ...parts);
}

function nodeLines(box: Box, s: Structure, activity: Activity | null): Line[] {
  const { node } = box;
  const cost = activity?.cost(node);
  const device = s.text("device", node);
  const reason = s.text("reason", node);
  const size = s.number("bytes", node);
  return [
    ["name", s.text("name", node)],
    ["gradient of", s.gradientOf(node)],
    ["gives", s.text("type", node)],
    ["layer", s.text("layer", node)],
    ["takes", once(box, () => operandsOf(node, s))],
    ["used by", once(box, () => usersOf(node, s), USERS)],
    ["device", device && reason ? `${device}, because of ${reason}` : device],
    ["attributes", s.text("attributes", node)],
    ["scope", s.text("scope", node)],
    ["state", s.text("resources", node)],
    ["line", s.text("source", node)],
    ["memory", size > 0 ? bytes(size) : ""],
    ["time", cost ? `${seconds(number(cost, "seconds"))} a step, p95 ${seconds(number(cost, "p95"))}; ${share(number(cost, "share"))} of a step` : ""],
    ["stands on", cost && activity ? `${count(number(cost, "steps"))} observed steps, the last ${activity.age(number(cost, "seen"))}` : ""],
  ]; // prettier-ignore
}

/** The overview of the whole graph, shown while no box is chosen. */
export function overviewOf(
  tree: GroupTree, layers: Layers, activity: Activity | null, choose: (node: number) => void,
): HTMLElement {
  const s = tree.structure;
  const steps = activity?.steps();
  const rows = activity?.costs() ?? [];
  const costs = layers.costs(rows);
  const parameters = costs.reduce((sum, layer) => sum + Math.max(layer.parameters, 0), 0);
  const lines: Line[] = [
    ["nodes", count(s.count)],
    ["parameters", parameters ? count(parameters) : ""],
    ["devices", [...s.devices()].sort().join(", ")],
    ["takes", clip(s.inputs.join(", "), 160)],
    ["gives", clip(s.outputs.join(", "), 160)],
    ["steps", steps ? count(number(steps, "count")) : ""],
    ["median", steps ? seconds(number(steps, "p50")) : ""],
    ["p95", steps ? seconds(number(steps, "p95")) : ""],
  ];
  const slow = rows.sort((a, b) => number(b, "share") - number(a, "share")).slice(0, SLOWEST);
  const list = html("ol", { class: "ef-slowest" });
  for (const row of slow) {
    const node = number(row, "node");
    const of = s.gradientOf(node);
    const name = `${share(number(row, "share"))} ${s.text("name", node)}${of && `, gradient of ${of}`}`;
    list.append(html("li", {}, button(name, `show ${s.text("name", node)}`, () => { choose(node); })));
  }
  const parts: HTMLElement[] = [html("h4", {}, s.graph), listOf(lines)];
  if (slow.length) parts.push(...layersOf(costs, layers, choose), html("h4", {}, "slowest nodes"), list);
  else {
    if (steps) parts.push(html("p", { class: "ef-note" }, isAtTasks(s) ? NOT_TIMED : NOT_YET));
    parts.push(html("p", { class: "ef-note" }, "Choose a box to see its type, device, line and time."));
  }
  parts.push(...linksOf(s, activity));
  return html("div", {}, ...parts);
} // prettier-ignore

function isAtTasks(s: Structure): boolean {
  return s.devices().some((device) => taskOf(device) !== "");
}

/** Sums of transfers between tasks so far, the largest first. */
function linksOf(s: Structure, activity: Activity | null): HTMLElement[] {
  if (!activity || !isAtTasks(s)) return [];
  const sums = new Map<string, number>();
  for (const row of activity.transfers()) {
    const link = `${activity.textOf(row, "origin")} → ${activity.textOf(row, "device")}`.replaceAll("/cpu:0", "");
    sums.set(link, (sums.get(link) ?? 0) + number(row, "bytes"));
  }
  const most = [...sums].sort((a, b) => b[1] - a[1]).slice(0, LINKS);
  if (!most.length) return [];
  return [html("h4", {}, "sent between tasks"), listOf(most.map(([link, sum]) => [link, bytes(sum)]))];
}

/** The shares of a step: forward, backward and updates, and layers, the most expensive first. */
function layersOf(costs: readonly LayerCost[], layers: Layers, choose: (node: number) => void): HTMLElement[] {
  const parts: HTMLElement[] = [];
  if (layers.phases) {
    const sums = layers.parts(costs);
    parts.push(html("h4", {}, "a step goes"), listOf(PHASES.map((phase) => [phase, share(sums[phase])])));
    const overlap = overlapText(costs);
    if (overlap) parts.push(html("p", { class: "ef-note" }, overlap));
  }
  if (!costs.some(({ name }) => name)) return parts;
  const list = html("ol", { class: "ef-slowest ef-dearest" });
  for (const layer of costs.slice(0, DEAREST)) {
    if (!layer.share) continue;
    const name = layerName(layer.name);
    const press = button(`${share(layer.share)} ${lastPart(name)}`, `show the slowest node of ${name}`, () => { choose(layer.node); });
    press.style.setProperty("--ef-share", String(Math.min(layer.share, 1)));
    list.append(html("li", {}, press));
  }
  return [...parts, html("h4", {}, "slowest layers"), list];
} // prettier-ignore

/** The last part of a name scope, by which layers are told apart. */
function lastPart(scope: string): string {
  return scope.split("/").slice(-2).join("/");
}

function listOf(lines: readonly Line[]): HTMLElement {
  const list = html("dl", {});
  for (const [term, text] of lines) {
    if (text) list.append(html("dt", {}, term), html("dd", {}, text));
  }
  return list;
}

type Texts = WeakMap<Box, string>;
/** Constant parts are computed once for each box: there may be very many edges. */
const CONTENTS: Texts = new WeakMap();
const USERS: Texts = new WeakMap();
const TAKEN: Texts = new WeakMap();

function once(box: Box, find: () => string, known: Texts = CONTENTS): string {
  let text = known.get(box);
  if (text === undefined) known.set(box, (text = find()));
  return text;
}

/** The ops in a group, the most frequent first. */
function opsOf(group: Group, s: Structure): string {
  const ops = new Map<string, number>();
  for (const g of walk(group)) {
    for (const n of g.nodes) ops.set(s.text("op", n), (ops.get(s.text("op", n)) ?? 0) + 1);
  }
  const most = [...ops].sort((a, b) => b[1] - a[1]).slice(0, 8);
  return most.map(([op, n]) => (n > 1 ? `${count(n)} ${op}` : op)).join(", ");
}

function otherLines(box: Box, tree: GroupTree, activity: Activity | null): Line[] {
  const s = tree.structure;
  if (box.queue) {
    const row = activity?.queue(box.queue);
    if (!row) return [["queue", "no operation on it was seen yet"]];
    const capacity = number(row, "capacity");
    return [
      ["depth", `${number(row, "depth")}${capacity ? ` of ${capacity}` : ""}`],
      ["waiting to put", String(number(row, "producers"))],
      ["waiting to take", String(number(row, "consumers"))],
      ["closed", number(row, "closed") ? "yes" : ""],
    ];
  }
  if (!box.group) return [];
  const group = box.group;
  const costs = activity?.costs().filter((row) => contains(group, tree.homes[number(row, "node")]!)) ?? [];
  const total = costs.reduce((sum, row) => sum + number(row, "share"), 0);
  return [
    ["nodes", count(group.total)],
    ["takes", once(box, () => crossings(group, tree).takes, TAKEN)],
    ["gives", once(box, () => crossings(group, tree).gives, USERS)],
    ["ops", once(box, () => opsOf(group, s))],
    ["device", box.device],
    ["time", costs.length ? `${share(total)} of a step` : ""],
  ];
}

function crossings(group: Group, tree: GroupTree): { takes: string; gives: string } {
  return crossingsOf((node) => contains(group, tree.homes[node]!), tree.structure);
}

function contains(group: Group, home: Group): boolean {
  for (let g: Group | null = home; g; g = g.parent) if (g === group) return true;
  return false;
}

function valueOf(node: number, activity: Activity): HTMLElement[] {
  const row = activity.value(node);
  if (!row) return [html("p", { class: "ef-note" }, "Its value is looked at in the next step.")];
  const [nans, infs] = [number(row, "nans"), number(row, "infs")];
  const figure = (name: string): string => number(row, name).toPrecision(4);
  const text = Number.isNaN(number(row, "mean")) ? "no finite element"
    : `${figure("least")} to ${figure("largest")}, mean ${figure("mean")}`; // prettier-ignore
  const shape = activity.textOf(row, "shape").split(",").join(" × ") || "one number";
  const parts: HTMLElement[] = [html("p", {}, `last value, ${activity.age(number(row, "seen"))}: ${shape}, ${text}`)];
  const histogram = JSON.parse(activity.textOf(row, "histogram") || "[]") as number[];
  if (histogram.some((n) => n)) {
    const bars = new Bars();
    bars.show(histogram, `distribution of the value, from ${figure("least")} to ${figure("largest")}`);
    parts.push(bars.element);
  }
  if (nans || infs) {
    parts.push(html("p", { class: "ef-alarm" }, `${count(nans)} NaN, ${count(infs)} infinite`));
  }
  return parts;
}
