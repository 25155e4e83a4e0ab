/** What is known of a box that was chosen. */

import { html } from "../dom";
import { bytes, count, seconds, share } from "../format";
import { number } from "../feed/tables";
import type { Activity } from "./activity";
import type { Box } from "./contents";
import { walk } from "./groups";
import type { Structure } from "./structure";

type Line = readonly [term: string, text: string];

export function detailsOf(box: Box, s: Structure, activity: Activity | null): HTMLElement {
  const lines = box.node >= 0 ? nodeLines(box.node, s, activity) : otherLines(box, s, activity);
  const list = html("dl", {});
  for (const [term, text] of lines) {
    if (text) list.append(html("dt", {}, term), html("dd", {}, text));
  }
  const parts: HTMLElement[] = [html("h4", {}, box.lines.join(" ")), list];
  if (box.node >= 0 && activity) parts.push(...valueOf(box.node, activity));
  return html("div", {}, ...parts);
}

function nodeLines(node: number, s: Structure, activity: Activity | null): Line[] {
  const cost = activity?.cost(node);
  const device = s.text("device", node);
  const reason = s.text("reason", node);
  const size = s.number("bytes", node);
  return [
    ["name", s.text("name", node)],
    ["gives", s.text("type", node)],
    ["takes", constantsOf(node, s)],
    ["device", device && reason ? `${device}, because of ${reason}` : device],
    ["scope", s.text("scope", node)],
    ["state", s.text("resources", node)],
    ["line", s.text("source", node)],
    ["memory", size > 0 ? bytes(size) : ""],
    ["time", cost ? `${seconds(number(cost, "seconds"))} a step, ${share(number(cost, "share"))} of it` : ""],
    ["stands on", cost && activity ? `${count(number(cost, "steps"))} observed steps, the last ${activity.age(number(cost, "seen"))}` : ""],
  ]; // prettier-ignore
}

/** Constants have no boxes: what is taken of them is said here. */
function constantsOf(node: number, s: Structure): string {
  const taken: string[] = [];
  for (let e = 0; e < s.edges; e++) {
    const from = s.number("from", e);
    if (s.number("to", e) === node && from >= 0 && s.text("kind", from) === "constant") {
      taken.push(s.text("value", from));
    }
  }
  return taken.length ? `the constant${taken.length > 1 ? "s" : ""} ${taken.join(", ")}` : "";
}

function otherLines(box: Box, s: Structure, activity: Activity | null): Line[] {
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
  const nodes = [...walk(box.group)].flatMap((g) => g.nodes);
  const ops = new Map<string, number>();
  for (const n of nodes) ops.set(s.text("op", n), (ops.get(s.text("op", n)) ?? 0) + 1);
  const most = [...ops].sort((a, b) => b[1] - a[1]).slice(0, 8);
  const costs = nodes.map((n) => activity?.cost(n)).filter((row) => row !== undefined);
  const total = costs.reduce((sum, row) => sum + number(row, "share"), 0);
  return [
    ["nodes", count(nodes.length)],
    ["ops", most.map(([op, n]) => (n > 1 ? `${n} ${op}` : op)).join(", ")],
    ["device", box.device],
    ["time", costs.length ? `${share(total)} of a step` : ""],
  ];
}

function valueOf(node: number, activity: Activity): HTMLElement[] {
  const row = activity.value(node);
  if (!row) return [html("p", { class: "ef-note" }, "Its value is looked at in the next step.")];
  const [nans, infs] = [number(row, "nans"), number(row, "infs")];
  const figure = (name: string): string => number(row, name).toPrecision(4);
  const text = Number.isNaN(number(row, "mean")) ? "no finite element"
    : `${figure("least")} to ${figure("largest")}, mean ${figure("mean")}`; // prettier-ignore
  const parts = [html("p", {}, `last value, ${activity.age(number(row, "seen"))}: ${text}`)];
  if (nans || infs) {
    parts.push(html("p", { class: "ef-alarm" }, `${count(nans)} NaN, ${count(infs)} infinite`));
  }
  return parts;
}
