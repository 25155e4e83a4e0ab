/** The costs of nodes, as a table sorted by any column; a row chosen here is chosen in all views. */

import { deviceColour } from "../colours";
import { html } from "../dom";
import type { Choice, Feed } from "../feed/feed";
import { number, type Row } from "../feed/tables";
import { bytes, count, lineOfCode, seconds, share } from "../format";
import { SMALL, trainingPhases } from "../graph/groups";
import type { Structure } from "../graph/structure";
import { SortedTable, type Column } from "./sorted_table";
import type { View } from "./view";

const SHOWN = 100;
/** seconds from which on a waiting node shows its wait in place of its time */
const LONG = 1;

/** A row of the table: a node, its figures if it was observed, its phase, and the seconds of its present wait. */
interface Line {
  readonly s: Structure;
  readonly node: number;
  readonly row: Row | undefined;
  /** its part of a training step; empty in other graphs */
  readonly phase: string;
  readonly waits: number;
}

function ofText(name: "name" | "scope" | "device" | "source", title: string, said: string): Column<Line> {
  const text = ({ node, s }: Line): string => s.text(name, node);
  return { name: title, said, isNumber: false, key: text, text };
}

function ofNumber(name: string, title: string, said: string, word: (value: number) => string): Column<Line> {
  return {
    name: title, said, isNumber: true,
    key: ({ row }) => (row ? number(row, name) : -1), text: ({ row }) => (row ? word(number(row, name)) : "–"),
  }; // prettier-ignore
}

/** The time of a node in a step, or of its present wait. */
const TIME: Column<Line> = {
  name: "time a step", isNumber: true,
  said: "the sum of its runs in one step, as in a step that is not observed",
  key: ({ row, waits }) => waits || (row ? number(row, "seconds") : -1),
  text: ({ row, waits }) => (waits ? `waits, ${seconds(waits)}` : row ? seconds(number(row, "seconds")) : "–"),
}; // prettier-ignore

/** The scope of a node, and the op whose gradient it belongs to, which has the scope as well. */
const SCOPE: Column<Line> = {
  ...ofText("scope", "scope", "the name scope; for gradients also the op"),
  text: ({ node, s }) => [s.text("scope", node), s.gradientOf(node) && `gradient of ${s.gradientOf(node)}`]
    .filter(Boolean).join(", "),
}; // prettier-ignore

/** The columns, the most wanted first: a narrow view shows the first ones. */
const COLUMNS: readonly Column<Line>[] = [
  ofText("name", "node", "its name in the graph"),
  TIME,
  ofNumber("share", "of a step", "its part of the time of a step", share),
  ofNumber("p95", "p95", "the time that 95 % of the observed steps did not exceed", seconds),
  {
    name: "phase", said: "its part of a training step: forward, backward or update", isNumber: false,
    key: ({ phase }) => phase, text: ({ phase }) => phase,
  },
  SCOPE,
  {
    name: "memory", said: "the size of the values that it gives", isNumber: true,
    key: ({ node, s }) => s.number("bytes", node), text: ({ node, s }) => memory(s.number("bytes", node)),
  },
  ofText("device", "device", "where it runs"),
  ofNumber("steps", "observed", "the number of observed steps behind these figures", count),
  { ...ofText("source", "line", "your line that made it"), brief: lineOfCode },
];
const [SECONDS, SHARE, DEVICE] = [1, 2, 7];

function memory(size: number): string {
  return size < 0 ? "?" : size ? bytes(size) : "–";
}


export class NodesView implements View {
  readonly element = html("div", { class: "ef-nodes ef-timed ef-by-node" });
  private readonly empty = html("p", { class: "ef-empty" }, "Nodes appear with the first step of a running function.");
  private readonly table: SortedTable<Line>;
  private readonly unlisten: () => void;
  private structure: Structure | null = null;
  private phases: readonly string[] | null = null;
  private executable = 0;
  private chosen: Choice | null = null;
  private drawn = "";

  constructor(private readonly feed: Feed) {
    this.table = new SortedTable("nodes", COLUMNS, SECONDS, {
      choose: ({ node }) => { feed.choose({ executable: this.executable, node }); },
      resort: () => { this.update(true); },
      dress: (row, line) => { this.dress(row, line); },
    }); // prettier-ignore
    this.table.element.hidden = true;
    this.element.append(this.table.element, this.empty);
    this.unlisten = feed.onChoice((chosen) => {
      this.chosen = chosen;
      this.mark();
    });
  }

  show(structure: Structure, executable: number): void {
    this.structure = structure;
    this.phases = trainingPhases(structure);
    this.executable = executable;
    this.drawn = "";
    this.update(true);
  }

  update(seen: boolean): void {
    const s = this.structure;
    if (!seen || !s) return;
    const waits = this.waits();
    const { order } = this.table;
    const now = [this.executable, this.feed.revision("nodes"), order.by, order.down, ...[...waits].flat()].join();
    if (now === this.drawn) return;
    this.drawn = now;
    const rows = [...this.feed.table("nodes")].filter((row) => number(row, "executable") === this.executable);
    const all = this.linesOf(rows, waits, s);
    this.table.element.hidden = false;
    this.empty.hidden = true;
    const part = all.length > SHOWN ? `${SHOWN} of ${count(all.length)} nodes` : `${count(all.length)} nodes`;
    const times = rows.length ? "with their times in one step" : "no step of which was observed yet, so that there are no times";
    this.table.show(all, `${part} of ${s.graph}, ${times}`, SHOWN);
    this.mark();
  }

  /** Whole seconds of present long waits, by node. */
  private waits(): Map<number, number> {
    const seconds = new Map<number, number>();
    for (const row of this.feed.list("places")) {
      const passed = Math.floor(this.feed.now() - number(row, "since"));
      if (number(row, "executable") !== this.executable || this.feed.name(row, "doing") !== "waits") continue;
      if (passed >= LONG) seconds.set(number(row, "node"), passed);
    }
    return seconds;
  }

  /** The observed nodes, or else all nodes with a box, and waiting nodes. */
  private linesOf(rows: readonly Row[], waits: ReadonlyMap<number, number>, s: Structure): Line[] {
    const lines = new Map<number, Line>();
    const add = (node: number, row?: Row): void => {
      if (node >= 0) lines.set(node, { s, node, row, phase: this.phases?.[node] ?? "", waits: waits.get(node) ?? 0 });
    };
    for (const row of rows) add(number(row, "node"), row);
    if (!rows.length) for (let node = 0; node < s.count; node++) if (!SMALL.has(s.text("kind", node))) add(node);
    for (const node of waits.keys()) if (!lines.has(node)) add(node);
    return [...lines.values()];
  }

  resize(): void {
    this.update(true);
  }

  dispose(): void {
    this.unlisten();
    this.structure = null;
  }

  private dress(at: HTMLTableRowElement, line: Line): void {
    at.classList.toggle("ef-waiting", line.waits > 0);
    at.cells[SHARE]!.style.setProperty("--ef-share", String(line.row ? Math.min(number(line.row, "share"), 1) : 0));
    at.cells[DEVICE]!.style.setProperty("--ef-device", deviceColour(line.s.text("device", line.node)));
  }

  private mark(): void {
    const { chosen } = this;
    this.table.mark(chosen?.executable === this.executable
      ? this.table.lines.findIndex((line) => line.node === chosen.node) : -1);
  } // prettier-ignore
}
