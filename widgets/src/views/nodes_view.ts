/** What each node takes, as a table that is sorted by any column; a row chosen here is chosen in all views. */

import { deviceColour } from "../colours";
import { html, KEYS, setText } from "../dom";
import type { Choice, Feed } from "../feed/feed";
import { number, type Row } from "../feed/tables";
import { clip, count, lineOfCode, seconds, share } from "../format";
import { SMALL } from "../graph/groups";
import type { Structure } from "../graph/structure";
import { ordered, type Order } from "./order";
import type { View } from "./view";

const SHOWN = 100;
/** seconds from which on a node that waits now says so in place of its time */
const LONG = 1;

/** What is told of a node: figures as far as it was observed, and for how many seconds it waits now. */
interface Line {
  readonly node: number;
  readonly row: Row | undefined;
  readonly waits: number;
}

interface Column {
  readonly name: string;
  readonly said: string;
  readonly isNumber: boolean;
  /** what rows are sorted by */
  readonly key: (line: Line, s: Structure) => string | number;
  readonly text: (line: Line, s: Structure) => string;
  /** what is seen of the text, where that is not all of it */
  readonly brief?: (text: string) => string;
}

function ofText(name: "name" | "scope" | "device" | "source", title: string, said: string): Column {
  const text = ({ node }: Line, s: Structure): string => s.text(name, node);
  return { name: title, said, isNumber: false, key: text, text };
}

function ofNumber(name: string, title: string, said: string, word: (value: number) => string): Column {
  return {
    name: title, said, isNumber: true,
    key: ({ row }) => (row ? number(row, name) : -1), text: ({ row }) => (row ? word(number(row, name)) : "–"),
  }; // prettier-ignore
}

/** What a node takes in one step; of one that waits and waits, for how long. */
const TIME: Column = {
  name: "time a step", isNumber: true,
  said: "all its runs in one step together, as a step takes that is not observed",
  key: ({ row, waits }) => waits || (row ? number(row, "seconds") : -1),
  text: ({ row, waits }) => (waits ? `waits, ${seconds(waits)}` : row ? seconds(number(row, "seconds")) : "–"),
}; // prettier-ignore

/** The scope of a node, and of what it is the gradient, which has the scope as well. */
const SCOPE: Column = {
  ...ofText("scope", "scope", "the name scope; of gradients also of what"),
  text: ({ node }, s) => [s.text("scope", node), s.gradientOf(node) && `gradient of ${s.gradientOf(node)}`]
    .filter(Boolean).join(", "),
}; // prettier-ignore

/** What is asked for most comes first: of a narrow view the beginning is seen. */
const COLUMNS: readonly Column[] = [
  ofText("name", "node", "its name in the graph"),
  TIME,
  ofNumber("share", "share", "its part of a step", share),
  ofNumber("p95", "p95", "what 95 % of the observed steps did not exceed", seconds),
  SCOPE,
  ofText("device", "device", "where it runs"),
  ofNumber("steps", "observed", "how many observed steps these figures stand on", count),
  { ...ofText("source", "line", "your line that made it"), brief: lineOfCode },
];
const [SECONDS, SHARE, DEVICE] = [1, 2, 5];

export class NodesView implements View {
  readonly element = html("div", { class: "ef-nodes ef-timed" });
  private readonly caption = html("caption", {});
  private readonly body = html("tbody", {});
  private readonly empty = html("p", { class: "ef-empty" }, "Nodes come with the first step of what runs.");
  private readonly table: HTMLTableElement;
  private readonly heads: readonly HTMLTableCellElement[];
  private readonly unlisten: () => void;
  private structure: Structure | null = null;
  private executable = 0;
  private order: Order = { by: SECONDS, down: true };
  private lines: readonly Line[] = [];
  private chosen: Choice | null = null;
  private drawn = "";

  constructor(private readonly feed: Feed) {
    this.heads = COLUMNS.map((column, i) => this.head(column, i));
    this.table = html("table", { "aria-label": "nodes" }, this.caption,
      html("thead", {}, html("tr", {}, ...this.heads)), this.body); // prettier-ignore
    this.table.hidden = true;
    this.element.append(this.table, this.empty);
    this.body.addEventListener("click", (event) => {
      const line = (event.target as Element).closest("tr");
      if (line) this.choose(line.sectionRowIndex);
    });
    this.body.addEventListener("keydown", (event) => { this.press(event); }); // prettier-ignore
    this.unlisten = feed.onChoice((chosen) => {
      this.chosen = chosen;
      this.mark();
    });
  }

  show(structure: Structure, executable: number): void {
    this.structure = structure;
    this.executable = executable;
    this.drawn = "";
    this.update(true);
  }

  update(seen: boolean): void {
    const s = this.structure;
    if (!seen || !s) return;
    const waits = this.waits();
    const now = [this.executable, this.feed.revision("nodes"), this.order.by, this.order.down, ...[...waits].flat()].join();
    if (now === this.drawn) return;
    this.drawn = now;
    const rows = [...this.feed.table("nodes")].filter((row) => number(row, "executable") === this.executable);
    const all = this.linesOf(rows, waits, s);
    const { key } = COLUMNS[this.order.by]!;
    this.lines = ordered(all, (line) => key(line, s), this.order.down).slice(0, SHOWN);
    this.table.hidden = false;
    this.empty.hidden = true;
    const part = all.length > SHOWN ? `${SHOWN} of ${count(all.length)} nodes` : `${count(all.length)} nodes`;
    const times = rows.length ? "in one step" : "no step of which was observed yet, so that there are no times";
    setText(this.caption, `${part} of ${s.graph}, ${times}`);
    this.heads.forEach((head, i) => {
      head.setAttribute("aria-sort", i !== this.order.by ? "none" : this.order.down ? "descending" : "ascending");
    });
    while (this.body.rows.length > this.lines.length) this.body.deleteRow(-1);
    this.lines.forEach((line, i) => { this.write(this.body.rows[i] ?? this.addRow(), line, s); }); // prettier-ignore
    this.mark();
  }

  /** Whole seconds by node, of those that have waited long and still do. */
  private waits(): Map<number, number> {
    const found = new Map<number, number>();
    for (const row of this.feed.list("places")) {
      const passed = Math.floor(this.feed.now() - number(row, "since"));
      if (number(row, "executable") !== this.executable || this.feed.name(row, "doing") !== "waits") continue;
      if (passed >= LONG) found.set(number(row, "node"), passed);
    }
    return found;
  }

  /** The nodes that were observed, or else all that do something, and those that wait. */
  private linesOf(rows: readonly Row[], waits: ReadonlyMap<number, number>, s: Structure): Line[] {
    const lines = new Map<number, Line>();
    const add = (node: number, row?: Row): void => {
      if (node >= 0) lines.set(node, { node, row, waits: waits.get(node) ?? 0 });
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

  private head(column: Column, at: number): HTMLTableCellElement {
    const sort = html("button", { type: "button", title: `${column.said}; press to sort`, ...KEYS }, column.name);
    sort.addEventListener("click", () => {
      const down = this.order.by === at ? !this.order.down : column.isNumber;
      this.order = { by: at, down };
      this.update(true);
    });
    return html("th", { scope: "col", class: column.isNumber ? "ef-number" : "" }, sort);
  }

  private addRow(): HTMLTableRowElement {
    const line = this.body.insertRow();
    for (const [name, value] of Object.entries(KEYS)) line.setAttribute(name, value);
    for (const column of COLUMNS) line.insertCell().className = column.isNumber ? "ef-number" : "";
    return line;
  }

  private write(at: HTMLTableRowElement, line: Line, s: Structure): void {
    COLUMNS.forEach((column, i) => {
      const [cell, text] = [at.cells[i]!, column.text(line, s)];
      setText(cell, clip(column.brief?.(text) ?? text, 120));
      if (cell.title !== text) cell.title = text;
    });
    at.classList.toggle("ef-waiting", line.waits > 0);
    at.cells[SHARE]!.style.setProperty("--ef-share", String(line.row ? Math.min(number(line.row, "share"), 1) : 0));
    at.cells[DEVICE]!.style.setProperty("--ef-device", deviceColour(s.text("device", line.node)));
  }

  /** One row can have the focus: the one that is chosen, else the first. */
  private mark(): void {
    const at = this.lines.findIndex((line) => this.chosen?.executable === this.executable
      && this.chosen.node === line.node); // prettier-ignore
    [...this.body.rows].forEach((line, i) => {
      line.classList.toggle("ef-picked", i === at);
      line.setAttribute("aria-selected", String(i === at));
      line.tabIndex = i === Math.max(at, 0) ? 0 : -1;
    });
  }

  private choose(at: number): void {
    const line = this.lines[at];
    if (line) this.feed.choose({ executable: this.executable, node: line.node });
  }

  private press(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity, Enter: 0 }[event.key];
    const line = (event.target as Element).closest("tr");
    if (step === undefined || !line) return;
    event.preventDefault();
    const to = Math.min(Math.max(line.sectionRowIndex + step, 0), this.lines.length - 1);
    this.choose(to);
    this.body.rows[to]?.focus();
  }
}
