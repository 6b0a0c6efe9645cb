"""`link` and `cut`: changes of a link of the testbed during a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from plimsoll.plan.actions.section import ActionScope
from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.links import LinkChangesRaw, changed_link, report_link
from plimsoll.plan.model import cell as model
from plimsoll.plan.model.links import Link
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Duration, Name, Raw
from plimsoll.plan.source.near import nearest

LastingFor = Annotated[Duration, Field(gt=0)]


class NamedLinkChanges(LinkChangesRaw):
    """A link by its name, and the properties that it gets."""

    name: Name


class LinkName(Raw):
    """A link of the testbed: `{link: far}`."""

    link: Name


class LinkAction(Raw):
    """Changes properties of a link. Without `for` until the end of the run."""

    link: NamedLinkChanges
    at: Duration
    for_: Annotated[LastingFor | None, Field(alias="for")] = None

    def resolve(self, path: KeyPath, scope: ActionScope, context: Context) -> model.Action | None:
        """The action; see `ActionSection`."""
        at = (*path, "link")
        link = find_link(self.link.name, (*at, "name"), scope, context)
        changes = self.link.model_dump(exclude={"name"}, exclude_none=True)
        if link is None:
            return None
        if not changes:
            context.wrong(
                at, "give at least one property that the link gets: rate, rtt, jitter, loss or queue"
            )
            return None
        changed = changed_link(link, self.link)
        report_link(changed, self.link, at, context.wrong)
        values = ", ".join(f"{key} {value}" for key, value in changes.items() if not isinstance(value, dict))
        label = f"link {link.name}" + (f": {values}" if values else "")
        return model.Action("link", label, self.at, for_ns=self.for_ or 0, link=changed, link_before=link)


class CutAction(Raw):
    """Cuts a link: all frames are dropped. Without `for` until the end of the run."""

    cut: LinkName
    at: Duration
    for_: Annotated[LastingFor | None, Field(alias="for")] = None

    def resolve(self, path: KeyPath, scope: ActionScope, context: Context) -> model.Action | None:
        """The action; see `ActionSection`."""
        link = find_link(self.cut.link, (*path, "cut", "link"), scope, context)
        if link is None:
            return None
        changed = replace(link, down=True)
        return model.Action(
            "cut", f"cut of link {link.name}", self.at, for_ns=self.for_ or 0, link=changed, link_before=link
        )


def find_link(name: str, at: KeyPath, scope: ActionScope, context: Context) -> Link | None:
    """The link, if the testbed has it; otherwise None, which is reported."""
    if name in scope.links:
        return scope.links[name]
    if scope.links:
        known = ", ".join(scope.links)
        context.wrong(at, f'the testbed has no link "{name}" (links: {known})', nearest(name, scope.links))
    else:
        context.wrong(at, "there are no emulated links: they need hosts of kind testbed")
    return None
