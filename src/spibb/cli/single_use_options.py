"""Options that are given once: a second value would silently win over the first."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

from spibb.errors import SettingsError


class Once(TyperCommand):
    """A command that refuses an option given twice, unless it may be repeated."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Look at the options in the order in which they came."""
        left: list[str] = super().parse_args(ctx, list(args))
        order: list[Any] = self.make_parser(ctx).parse_args(args=list(args))[2]
        for place, given in enumerate(order):
            is_option = given.param_type_name == "option" and not given.multiple
            if is_option and any(given is before for before in order[:place]):
                raise SettingsError(f"{given.opts[0]} is given twice", expected="each option once")
        return left
