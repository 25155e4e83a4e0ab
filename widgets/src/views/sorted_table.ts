/** A table sorted by any column. One row has the focus, and keys move it from row to row. */

import { html, KEYS, setText } from "../dom";
import { clip } from "../format";
import { ordered, type Order } from "./order";

export interface Column<L> {
  readonly name: string;
  readonly said: string;
  readonly isNumber: boolean;
  /** sort key of a row */
  readonly key: (line: L) => string | number;
  readonly text: (line: L) => string;
  /** the shown part of the text, if that is not all of it */
  readonly brief?: (text: string) => string;
}

export interface TableEvents<L> {
  /** called when a row was pressed */
  choose(line: L): void;
  /** called when the order has changed: all lines have to be shown again */
  resort(): void;
  /** called when a row has its texts, to set its other properties */
  dress(row: HTMLTableRowElement, line: L): void;
}

export class SortedTable<L> {
  readonly element: HTMLTableElement;
  order: Order;
  /** the lines shown, in order */
  lines: readonly L[] = [];
  private readonly caption = html("span", {});
  private readonly body = html("tbody", {});
  private readonly heads: readonly HTMLTableCellElement[];

  /**
   * @param label name for screen readers
   * @param by the column by which it is sorted at first, largest first
   */
  constructor(
    label: string, private readonly columns: readonly Column<L>[], by: number,
    private readonly events: TableEvents<L>,
  ) {
    this.order = { by, down: true };
    this.heads = columns.map((column, i) => this.head(column, i));
    this.element = html("table", { "aria-label": label }, html("caption", {}, this.caption),
      html("thead", {}, html("tr", {}, ...this.heads)), this.body);
    this.body.addEventListener("click", (event) => {
      const line = (event.target as Element).closest("tr");
      if (line) this.choose(line.sectionRowIndex);
    });
    this.body.addEventListener("keydown", (event) => { this.press(event); });
  } // prettier-ignore

  /** Show the first lines in the current order. */
  show(lines: readonly L[], caption: string, most = Infinity): void {
    const { key } = this.columns[this.order.by]!;
    this.lines = ordered(lines, key, this.order.down).slice(0, most);
    setText(this.caption, caption);
    this.heads.forEach((head, i) => {
      head.setAttribute("aria-sort", i !== this.order.by ? "none" : this.order.down ? "descending" : "ascending");
    });
    while (this.body.rows.length > this.lines.length) this.body.deleteRow(-1);
    this.lines.forEach((line, i) => { this.write(this.body.rows[i] ?? this.addRow(), line); }); // prettier-ignore
  }

  /** Mark a row, and give it the focus; without one, the first row can have the focus. */
  mark(at: number): void {
    [...this.body.rows].forEach((line, i) => {
      line.classList.toggle("ef-picked", i === at);
      line.setAttribute("aria-selected", String(i === at));
      line.tabIndex = i === Math.max(at, 0) ? 0 : -1;
    });
  }

  private head(column: Column<L>, at: number): HTMLTableCellElement {
    const sort = html("button", { type: "button", title: `${column.said}; press to sort`, ...KEYS }, column.name);
    sort.addEventListener("click", () => {
      const down = this.order.by === at ? !this.order.down : column.isNumber;
      this.order = { by: at, down };
      this.events.resort();
    });
    return html("th", { scope: "col", class: column.isNumber ? "ef-number" : "" }, sort);
  }

  private addRow(): HTMLTableRowElement {
    const line = this.body.insertRow();
    for (const [name, value] of Object.entries(KEYS)) line.setAttribute(name, value);
    for (const column of this.columns) line.insertCell().className = column.isNumber ? "ef-number" : "";
    return line;
  }

  private write(at: HTMLTableRowElement, line: L): void {
    this.columns.forEach((column, i) => {
      const [cell, text] = [at.cells[i]!, column.text(line)];
      setText(cell, clip(column.brief?.(text) ?? text, 120));
      if (cell.title !== text) cell.title = text;
    });
    this.events.dress(at, line);
  }

  private choose(at: number): void {
    const line = this.lines[at];
    if (line) this.events.choose(line);
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
