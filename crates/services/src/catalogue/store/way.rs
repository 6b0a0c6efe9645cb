//! The way along a path: the directories passed so far, and the names that remain. Links change
//! both.
//!
//! No database: the caller reads the entries of names, and the content of links.

use std::borrow::Cow;

use plimsoll_wire::catalogue::Status;

use super::groups::User;
use super::node::{Node, SEARCH};

/// Maximum number of links on a way, as in Linux.
const MAX_LINKS: u32 = 40;

/// Whether a link at the end of a path is followed. Links before its end always are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastLink {
    Follow,
    Keep,
}

/// What a name has led to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Passed {
    Entry,
    /// A link with this number, which is to be followed.
    Link(i64),
}

pub(super) struct Way<'p> {
    /// From the root to the directory above the current entry.
    above: Vec<Node>,
    here: Node,
    /// In reverse order.
    remaining: Vec<Cow<'p, str>>,
    last_link: LastLink,
    links: u32,
}

impl<'p> Way<'p> {
    pub(super) fn new(root: &Node, path: &[&'p str], last_link: LastLink) -> Self {
        Self {
            above: Vec::new(),
            here: root.clone(),
            remaining: path.iter().rev().map(|name| Cow::Borrowed(*name)).collect(),
            last_link,
            links: 0,
        }
    }

    /// The current entry.
    pub(super) fn here(&self) -> &Node {
        &self.here
    }

    /// The entry at the end.
    pub(super) fn into_end(self) -> Node {
        self.here
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.remaining.is_empty()
    }

    /// Whether the next `count` names are the last ones.
    pub(super) fn is_end_after(&self, count: usize) -> bool {
        self.remaining.len() == count
    }

    /// Whether the current entry is a directory whose names the user may search.
    pub(super) fn enter(&self, user: &User) -> Result<(), Status> {
        if !self.here.is_directory() {
            Err(Status::NOT_DIRECTORY)
        } else if self.here.permits(user, SEARCH) {
            Ok(())
        } else {
            Err(Status::FORBIDDEN)
        }
    }

    /// Passes the names `.` and `..` that come next. They are in links only.
    pub(super) fn pass_dots(&mut self, user: &User) -> Result<(), Status> {
        while let Some(name) = self.remaining.last().filter(|name| is_dots(name)) {
            self.enter(user)?;
            // The directory above the root is the root.
            if name == ".."
                && let Some(above) = self.above.pop()
            {
                self.here = above;
            }
            self.remaining.pop();
        }
        Ok(())
    }

    /// The names that come next, at most `max`, up to one that is passed without the database.
    pub(super) fn next_names(&self, max: usize) -> impl ExactSizeIterator<Item = &str> + Clone {
        let names = self.remaining.iter().rev().take(max);
        let count = names.take_while(|name| !is_dots(name)).count();
        let first = self.remaining.len() - count;
        self.remaining[first..].iter().rev().map(AsRef::as_ref)
    }

    /// Passes the next name, which is that of `node`.
    pub(super) fn pass(&mut self, node: impl FnOnce(String) -> Node) -> Passed {
        let name = self.remaining.pop().unwrap_or_default().into_owned();
        let node = node(name);
        let is_followed = !self.is_at_end() || self.last_link == LastLink::Follow;
        if node.is_link() && is_followed {
            return Passed::Link(node.file);
        }
        self.above.push(std::mem::replace(&mut self.here, node));
        Passed::Entry
    }

    /// Continues at the target of a link in the current directory.
    pub(super) fn follow(&mut self, target: &str) -> Result<(), Status> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Status::LINKS);
        }
        if target.starts_with('/')
            && let Some(root) = self.above.drain(..).next()
        {
            self.here = root;
        }
        let names = target.split('/').filter(|name| !name.is_empty());
        self.remaining
            .extend(names.rev().map(|name| Cow::Owned(name.to_owned())));
        Ok(())
    }
}

fn is_dots(name: &str) -> bool {
    matches!(name, "." | "..")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::catalogue::{DIRECTORY, FILE, LINK};

    fn node(file: i64, name: &str, mode: u32) -> Node {
        Node {
            file,
            parent: 0,
            name: name.into(),
            guid: String::new(),
            mode,
            owner: 1,
            size: 0,
            group: 0,
            acl: String::new(),
        }
    }

    /// A tree in which a name determines what it is: `dN`, `fN` or `lN` with the number N, and the
    /// targets of links.
    fn resolve(path: &[&str], targets: &[&str], last_link: LastLink) -> Result<Vec<i64>, Status> {
        let user = User {
            number: 2,
            groups: Vec::new(),
        };
        let mut way = Way::new(&node(0, "/", DIRECTORY | 0o755), path, last_link);
        loop {
            way.pass_dots(&user)?;
            if way.is_at_end() {
                break;
            }
            assert!(way.next_names(8).all(|name| !is_dots(name)));
            way.enter(&user)?;
            let passed = way.pass(|name| {
                let mode = match name.as_bytes()[0] {
                    b'd' => DIRECTORY | 0o755,
                    b'l' => LINK | 0o777,
                    b's' => DIRECTORY | 0o700,
                    _ => FILE | 0o644,
                };
                node(name[1..].parse().unwrap(), &name, mode)
            });
            if let Passed::Link(number) = passed {
                way.follow(targets[number as usize])?;
            }
        }
        let nodes = way.above.iter().chain([&way.here]);
        Ok(nodes.map(|node| node.file).collect())
    }

    #[test]
    fn links_are_followed_from_their_directory_or_from_the_root() {
        let targets = [
            "/d5/f6",
            "f7",
            "../f8",
            "/",
            ".",
            "./d3/../..//f9",
            "l0",
            "l7",
            "../../../f1",
            "f1/..",
            "s1/../f1",
        ];
        let follow = |path: &[&str]| resolve(path, &targets, LastLink::Follow);
        for (path, nodes) in [
            (&["d1", "d2", "f3"][..], &[0, 1, 2, 3][..]),
            (&["d1", "l0"], &[0, 5, 6]),
            (&["d1", "l1"], &[0, 1, 7]),
            (&["d1", "l2"], &[0, 8]),
            (&["d1", "l3"], &[0]),
            (&["d1", "l3", "d2", "f3"], &[0, 2, 3]),
            (&["d1", "l4", "f3"], &[0, 1, 3]),
            (&["d1", "d2", "l5"], &[0, 1, 9]),
            (&["d1", "l6"], &[0, 5, 6]),
            (&["d1", "l8"], &[0, 1]),
        ] {
            assert_eq!(follow(path).as_deref(), Ok(nodes), "{path:?}");
        }
        assert_eq!(follow(&["d1", "l0", "f2"]), Err(Status::NOT_DIRECTORY));
        assert_eq!(follow(&["d1", "l7"]), Err(Status::LINKS));
        assert_eq!(follow(&["d1", "l9"]), Err(Status::NOT_DIRECTORY));
        assert_eq!(follow(&["d1", "l10"]), Err(Status::FORBIDDEN));
    }

    #[test]
    fn only_the_last_link_can_be_kept() {
        let keep = |path: &[&str]| resolve(path, &["/d5"], LastLink::Keep);
        assert_eq!(keep(&["d1", "l0"]), Ok(vec![0, 1, 0]));
        assert_eq!(keep(&["d1", "l0", "f2"]), Ok(vec![0, 5, 2]));
    }

    #[test]
    fn the_names_of_a_statement_end_at_dots() {
        let mut way = Way::new(&node(0, "/", DIRECTORY), &["a", "b", "c"], LastLink::Follow);
        let names = |way: &Way<'_>, max| way.next_names(max).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(names(&way, 2), ["a", "b"]);
        way.follow("x/../y").unwrap();
        assert_eq!(names(&way, 8), ["x"]);
        assert_eq!(way.next_names(8).len(), 1);
    }
}
