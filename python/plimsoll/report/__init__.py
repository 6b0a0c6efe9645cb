"""Tables, charts, the self-contained page and the summary for a terminal of an analysis. No statistics are computed
here.

The charts take a second to import and the summary for a terminal does not need them. Therefore nothing is imported
here: `report.html.render`, `report.figures.write_figures`, `report.terminal.summary_lines`, `report.setup.SetUp`.
"""
