"""Pictures of graphs: what is shown, where it is drawn, as DOT and SVG."""
