/** What holds up what, below a graph: functions and queues from the cause to what waits, most of them in other graphs. */

import { html } from "../dom";
import type { Row } from "../feed/tables";

export class CausePath {
  readonly element = html("ol", { class: "ef-path", "aria-label": "what holds up what", hidden: true });
  private told = "";

  /** @param diagnoses what the kernel says is wrong; the first of them that holds up something is shown */
  show(diagnoses: readonly Row[]): void {
    const path = diagnoses.map((row) => (row["path"] as string | undefined) ?? "").find((text) => text) ?? "";
    if (path === this.told) return;
    this.told = path;
    this.element.hidden = !path;
    const names = path.split("\n");
    const begin = names[0] ? 2 : 3; // a function and its queue, or a queue and who is stuck there
    const parts = names.map((name, i) => ({ name, isQueue: i % 2 === 1, isCause: i < begin }));
    this.element.replaceChildren(...parts.filter(({ name }) => name).map(({ name, isQueue, isCause }) => {
      const kind = isQueue ? "ef-path-queue" : "ef-path-function";
      const title = `${isQueue ? "queue" : "function"} ${name}${isCause ? ", where it begins" : ""}`;
      return html("li", {}, html("span", { class: isCause ? `${kind} ef-cause` : kind, title }, name));
    })); // prettier-ignore
  }
}
