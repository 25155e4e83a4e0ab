/** What each node takes, as a table that is sorted by any column; a row chosen here is chosen in all views. */

import { deviceColour } from "../colours";
import { html, KEYS, setText } from "../dom";
import type { Choice, Feed } from "../feed/feed";
import { number, type Row } from "../feed/tables";
import { clip, count, lineOfCode, seconds, share } from "../format";
import type { Structure } from "../graph/structure";
import { ordered, type Order } from "./order";
import type { View } from "./view";

const SHOWN = 100;

interface Column {
  readonly name: string;
  readonly said: string;
  readonly isNumber: boolean;
  /** what rows are sorted by */
  readonly key: (row: Row, s: Structure) => string | number;
  readonly text: (row: Row, s: Structure) => string;
  /** what is seen of the text, where that is not all of it */
  readonly brief?: (text: string) => string;
}

function ofText(name: "name" | "scope" | "device" | "source", title: string, said: string): Column {
  const text = (row: Row, s: Structure): string => s.text(name, number(row, "node"));
  return { name: title, said, isNumber: false, key: text, text };
}

function ofNumber(name: string, title: string, said: string, word: (value: number) => string): Column {
  return {
    name: title, said, isNumber: true,
    key: (row) => number(row, name), text: (row) => word(number(row, name)),
  }; // prettier-ignore
}

const COLUMNS: readonly Column[] = [
  ofText("name", "node", "its name in the graph"),
  ofText("scope", "scope", "the name scope"),
  ofText("device", "device", "where it runs"),
  ofNumber("seconds", "time a step", "all its runs in one step together, as a step takes that is not observed", seconds),
  ofNumber("p95", "p95", "what 95 % of the observed steps did not exceed", seconds),
  ofNumber("share", "share", "its part of a step", share),
  ofNumber("steps", "observed", "how many observed steps these figures stand on", count),
  { ...ofText("source", "line", "your line that made it"), brief: lineOfCode },
];
const [DEVICE, SECONDS, SHARE] = [2, 3, 5];

export class NodesView implements View {
  readonly element = html("div", { class: "ef-nodes ef-timed" });
  private readonly caption = html("caption", {});
  private readonly body = html("tbody", {});
  private readonly empty = html("p", { class: "ef-empty" },
    "No step was observed yet. The first figures come after some seconds of steps."); // prettier-ignore
  private readonly table: HTMLTableElement;
  private readonly heads: readonly HTMLTableCellElement[];
  private readonly unlisten: () => void;
  private structure: Structure | null = null;
  private executable = 0;
  private order: Order = { by: SECONDS, down: true };
  private rows: readonly Row[] = [];
  private chosen: Choice | null = null;
  private drawn = "";

  constructor(private readonly feed: Feed) {
    this.heads = COLUMNS.map((column, i) => this.head(column, i));
    this.table = html("table", { "aria-label": "nodes" }, this.caption,
      html("thead", {}, html("tr", {}, ...this.heads)), this.body); // prettier-ignore
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
    const now = `${this.executable} ${this.feed.revision("nodes")} ${this.order.by} ${this.order.down}`;
    if (!seen || !s || now === this.drawn) return;
    this.drawn = now;
    const all = [...this.feed.table("nodes")].filter((row) => number(row, "executable") === this.executable);
    const { key } = COLUMNS[this.order.by]!;
    this.rows = ordered(all, (row) => key(row, s), this.order.down).slice(0, SHOWN);
    this.table.hidden = !all.length;
    this.empty.hidden = !this.table.hidden;
    const part = all.length > SHOWN ? `${SHOWN} of ${count(all.length)} nodes` : `${count(all.length)} nodes`;
    setText(this.caption, `${part} of ${s.graph}, in one step`);
    this.heads.forEach((head, i) => {
      head.setAttribute("aria-sort", i !== this.order.by ? "none" : this.order.down ? "descending" : "ascending");
    });
    while (this.body.rows.length > this.rows.length) this.body.deleteRow(-1);
    this.rows.forEach((row, i) => { this.write(this.body.rows[i] ?? this.line(), row, s); }); // prettier-ignore
    this.mark();
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

  private line(): HTMLTableRowElement {
    const line = this.body.insertRow();
    for (const [name, value] of Object.entries(KEYS)) line.setAttribute(name, value);
    for (const column of COLUMNS) line.insertCell().className = column.isNumber ? "ef-number" : "";
    return line;
  }

  private write(line: HTMLTableRowElement, row: Row, s: Structure): void {
    COLUMNS.forEach((column, i) => {
      const [cell, text] = [line.cells[i]!, column.text(row, s)];
      setText(cell, clip(column.brief?.(text) ?? text, 120));
      if (cell.title !== text) cell.title = text;
    });
    line.cells[SHARE]!.style.setProperty("--ef-share", String(Math.min(number(row, "share"), 1)));
    line.cells[DEVICE]!.style.setProperty("--ef-device", deviceColour(s.text("device", number(row, "node"))));
  }

  /** One row can have the focus: the one that is chosen, else the first. */
  private mark(): void {
    const at = this.rows.findIndex((row) => this.chosen?.executable === this.executable
      && this.chosen.node === number(row, "node")); // prettier-ignore
    [...this.body.rows].forEach((line, i) => {
      line.classList.toggle("ef-picked", i === at);
      line.setAttribute("aria-selected", String(i === at));
      line.tabIndex = i === Math.max(at, 0) ? 0 : -1;
    });
  }

  private choose(at: number): void {
    const row = this.rows[at];
    if (row) this.feed.choose({ executable: this.executable, node: number(row, "node") });
  }

  private press(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity, Enter: 0 }[event.key];
    const line = (event.target as Element).closest("tr");
    if (step === undefined || !line) return;
    event.preventDefault();
    const to = Math.min(Math.max(line.sectionRowIndex + step, 0), this.rows.length - 1);
    this.choose(to);
    this.body.rows[to]?.focus();
  }
}
