/** The slowest nodes, as a table: what the picture shows, for reading and for readers of screens. */

import { html, setText } from "../dom";
import type { Feed } from "../feed/feed";
import { number } from "../feed/tables";
import { count, seconds, share } from "../format";
import type { Structure } from "../graph/structure";
import type { View } from "./view";

const SHOWN = 20;
const COLUMNS = ["node", "scope", "time a step", "share", "observed steps", "line"] as const;

export class NodesView implements View {
  readonly element = html("div", { class: "ef-nodes ef-timed" });
  private readonly body = html("tbody", {});
  private readonly empty = html("p", { class: "ef-empty" },
    "No step was observed yet. The first figures come after some seconds of steps."); // prettier-ignore
  private readonly table: HTMLTableElement;
  private structure: Structure | null = null;
  private executable = 0;

  constructor(private readonly feed: Feed) {
    const head = html("tr", {}, ...COLUMNS.map((name) => html("th", { scope: "col" }, name)));
    this.table = html("table", {}, html("caption", {}, "the slowest nodes of one step"),
      html("thead", {}, head), this.body); // prettier-ignore
    this.element.append(this.table, this.empty);
  }

  show(structure: Structure, executable: number): void {
    this.structure = structure;
    this.executable = executable;
    this.update(true);
  }

  update(seen: boolean): void {
    const s = this.structure;
    if (!seen) return;
    const rows = [...this.feed.table("nodes")]
      .filter((row) => number(row, "executable") === this.executable)
      .sort((a, b) => number(b, "seconds") - number(a, "seconds"))
      .slice(0, SHOWN);
    this.table.hidden = !s || !rows.length;
    this.empty.hidden = !this.table.hidden;
    if (!s) return;
    while (this.body.rows.length > rows.length) this.body.deleteRow(-1);
    rows.forEach((row, i) => {
      const node = number(row, "node");
      const texts = [
        s.text("name", node), s.text("scope", node), seconds(number(row, "seconds")),
        share(number(row, "share")), count(number(row, "steps")), s.text("source", node),
      ]; // prettier-ignore
      const line = this.body.rows[i] ?? this.body.insertRow();
      texts.forEach((text, column) => {
        setText(line.cells[column] ?? line.insertCell(), text);
      });
      line.cells[3]!.style.setProperty("--ef-share", String(Math.min(number(row, "share"), 1)));
    });
  }

  resize(): void {
    this.update(true);
  }

  dispose(): void {
    this.structure = null;
  }
}
