/** The entry point for anywidget: shows a view of a model, and keeps it up to date. */

import "./index.css";
import { button, html, setText, svg, unique } from "./dom";
import { Feed, type FeedModel } from "./feed/feed";
import { readStructure } from "./graph/structure";
import type { ViewModel } from "./passes/stages";
import { GraphView } from "./graph/view";
import { panels, type Showable } from "./lab/panels";
import { DashboardView } from "./views/dashboard_view";
import { PanelView } from "./views/panel_view";
import { QueuesView } from "./views/queues_view";
import type { View } from "./views/view";

interface Model extends ViewModel {
  readonly widget_manager: { get_model(id: string): Promise<FeedModel> };
}

interface Given {
  readonly model: Model;
  readonly el: HTMLElement;
}

async function render({ model, el }: Given): Promise<() => void> {
  const root = html("div", { class: "ef-root", "data-kind": String(model.get("kind")) });
  const state = html("p", { class: "ef-state", role: "status" }, "waiting for the kernel");
  el.append(root);
  root.append(state);
  const id = String(model.get("feed")).replace("IPY_MODEL_", "");
  const feed = Feed.of(await model.widget_manager.get_model(id));
  const view = viewOf(model, feed);
  const showable = showableOf(model, root);
  root.append(view.element, signs(root, showable));
  const shown = unique("view");
  const unsubscribe = feed.subscribe(update);
  const size = new ResizeObserver(() => {
    view.resize();
  });
  size.observe(root);
  feed.show(shown);
  panels().views.add(showable);
  update();
  return () => {
    panels().views.delete(showable);
    size.disconnect();
    unsubscribe();
    feed.hide(shown);
    view.dispose();
  };

  function update(): void {
    root.dataset["status"] = feed.trouble ? "trouble" : feed.status;
    root.dataset["updates"] = String(Number(root.dataset["updates"] ?? 0) + 1);
    setText(state, stateText(feed));
    state.hidden = !state.textContent;
    try {
      view.update(root.offsetParent !== null);
    } catch (error) {
      // a failing view must neither stop others nor fill the console ten times a second
      unsubscribe();
      state.hidden = false;
      setText(state, `This view has failed and stands still: ${String(error)}`);
      root.dataset["status"] = "trouble";
    }
  }
}

/** The buttons at the top right of a view, which show it elsewhere. */
function signs(root: HTMLElement, showable: Showable): HTMLElement {
  const sign = (path: string, title: string, press: () => void): HTMLElement => {
    const made = button("", title, press);
    made.append(svg("svg", { width: 12, height: 12, "aria-hidden": "true" }, svg("path", { d: path })));
    return made;
  };
  const { show } = panels();
  const inside = root.closest(".ef-own") !== null;
  return html("div", { class: "ef-signs" },
    ...(show && !inside ? [sign("M1,1h10v10h-10zM7,1v10", "a panel of its own", () => { show(showable); })] : []),
    sign("M1,4V1h3M8,1h3v3M11,8v3h-3M4,11H1V8", "the whole screen, and back", () => { toggleFull(root); }),
  ); // prettier-ignore
}

function showableOf(model: Model, root: HTMLElement): Showable {
  return {
    root, kind: String(model.get("kind")), title: model.get("title") as string,
    open: (el) => render({ model, el }),
    onEnd: (ended) => { model.on("destroy", ended); },
  }; // prettier-ignore
}

function toggleFull(root: HTMLElement): void {
  if (document.fullscreenElement === root) void document.exitFullscreen();
  else void root.requestFullscreen().catch(() => undefined); // some pages do not allow it
}

function stateText(feed: Feed): string {
  if (feed.trouble) return feed.trouble;
  if (feed.status === "lost") return "The kernel is gone: this is its last state. Run the cell again.";
  return feed.status === "waiting" ? "waiting for the kernel" : "";
}

function viewOf(model: Model, feed: Feed): View {
  switch (model.get("kind")) {
    case "graph":
      return graphOf(model, feed);
    case "panel":
      return new PanelView(feed, model.get("panel") as number);
    case "queues":
      return new QueuesView(feed, model.get("queues") as string[]);
    default:
      return new DashboardView(feed, model);
  }
}

function graphOf(model: Model, feed: Feed): View {
  const view = new GraphView(feed, model.get("limit") as number, model);
  const [executable = 0] = model.get("executables") as number[];
  const given = model.get("structure") as DataView<ArrayBuffer>;
  const bytes = new Uint8Array(given.buffer, given.byteOffset, given.byteLength);
  void readStructure([bytes]).then((structure) => {
    view.show(structure, executable);
  });
  return {
    element: view.element,
    update: (seen) => { if (seen) view.update(); },
    resize: () => { view.resize(); },
    dispose: () => { view.dispose(); },
  }; // prettier-ignore
}

export default { render };
