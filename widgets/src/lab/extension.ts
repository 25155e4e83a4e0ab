/**
 * The extension of JupyterLab: shows a view in a panel of its own, beside the notebook.
 *
 * JupyterLab loads it as a container of module federation. The duties of such a container are few,
 * so they are written here: a bundler for them would be a hundred times as large.
 */

import { unique } from "../dom";
import { panels, type Showable } from "./panels";

/** The used part of Lumino's widgets. */
interface Widget {
  id: string;
  readonly node: HTMLElement;
  readonly title: { label: string; caption: string; closable: boolean };
  readonly disposed: { connect(heard: () => void): void };
  readonly isDisposed: boolean;
  dispose(): void;
}

interface Lab {
  readonly shell: {
    readonly currentWidget: Widget | null;
    add(widget: Widget, area: string, options: object): void;
    activateById(id: string): void;
  };
  readonly commands: {
    addCommand(id: string, options: object): void;
    notifyCommandChanged(id: string): void;
  };
}

interface Palette {
  addItem(item: { command: string; category: string }): void;
}

/** Modules shared by JupyterLab: by name and version, a getter of a factory. */
type Scope = Readonly<Record<string, Readonly<Record<string, { get(): Promise<() => unknown> }>>>>;

const COMMAND = "eagerflow:panel";

async function shared(scope: Scope, name: string): Promise<unknown> {
  const [module] = Object.values(scope[name] ?? {});
  if (!module) throw new Error(`this JupyterLab does not share ${name}`);
  return (await module.get())();
}

/** Open a panel beside the notebook. */
function open(lab: Lab, Base: new () => Widget, view: Showable): void {
  class Panel extends Base {
    /** Dispose of a panel that is closed by its cross, which would only be hidden. */
    protected onCloseRequest(): void {
      this.dispose();
    }
  }
  const panel = new Panel();
  panel.id = unique("panel");
  panel.title.label = view.title || view.kind;
  panel.title.caption = "a view of eagerflow; it ends with the kernel of its notebook";
  panel.title.closable = true;
  panel.node.classList.add("ef-own");
  lab.shell.add(panel, "main", { mode: "split-right" });
  lab.shell.activateById(panel.id);
  view.onEnd(() => { if (!panel.isDisposed) panel.dispose(); }); // prettier-ignore
  void view.open(panel.node).then((end) => {
    if (panel.isDisposed) end();
    else panel.disposed.connect(end);
  });
}

/** The view that the command is for: in the current notebook, its dashboard, else its first view. */
function viewOf(lab: Lab): Showable | undefined {
  const node = lab.shell.currentWidget?.node;
  const here = [...panels().views].filter((view) => node?.contains(view.root));
  return here.find((view) => view.kind === "dashboard") ?? here[0];
}

function plugin(Base: new () => Widget, palette: unknown): object {
  return {
    id: "eagerflow:panels",
    description: "Shows views of eagerflow in panels of their own.",
    autoStart: true,
    optional: [palette],
    activate(lab: Lab, commands: Palette | null): void {
      panels().show = (view) => { open(lab, Base, view); }; // prettier-ignore
      lab.commands.addCommand(COMMAND, {
        label: "eagerflow: show the view of this notebook in a panel",
        execute: () => {
          const view = viewOf(lab);
          if (view) open(lab, Base, view);
        },
      });
      commands?.addItem({ command: COMMAND, category: "Notebook" });
    },
  };
}

let scope: Scope = {};

const container = {
  init(given: Scope): void {
    scope = given;
  },
  async get(): Promise<() => object> {
    const { Widget: Base } = (await shared(scope, "@lumino/widgets")) as { Widget: new () => Widget };
    const { ICommandPalette } = (await shared(scope, "@jupyterlab/apputils")) as { ICommandPalette: unknown };
    const module = { __esModule: true, default: plugin(Base, ICommandPalette) };
    return () => module;
  },
};

const page = window as unknown as { _JUPYTERLAB?: Record<string, unknown> };
(page._JUPYTERLAB ??= {})["eagerflow"] = container;
