"""Draw the picture of the README from the demo's log: run from the project's root."""

from importlib import resources
from pathlib import Path

import spibb
from spibb.pictures import to_svg
from spibb.report.changes import list_changes
from spibb.report.figures import change_figure


def main() -> None:
    """Improve the demo's baseline and draw where the result differs."""
    demo = resources.files("spibb.cli") / "demo"
    with resources.as_file(demo) as folder:
        log = spibb.read_log(folder / "log.csv")
        baseline = spibb.TabularPolicy.read(folder / "baseline.csv")
    result = spibb.ApproxSoftSPIBB(epsilon=0.5).improve(log, baseline=baseline, gamma=0.95)
    changes = list_changes(result.policy, result.baseline.policy, result.certificate.states)
    figure = change_figure(result.policy, result.baseline.policy, changes, n_shown=8)
    Path("docs/images/demo.svg").write_text(to_svg(figure), encoding="utf-8")


if __name__ == "__main__":
    main()
