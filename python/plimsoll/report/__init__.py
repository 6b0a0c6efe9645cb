"""Tables, charts, the self-contained page and the terminal's summary of an analysis. Never recomputes statistics.

Charts take a second to import; the terminal's summary needs none of them, so nothing is imported here:
`report.html.render`, `report.figures.write_figures`, `report.terminal.summary_lines`, `report.setup.SetUp`.
"""
