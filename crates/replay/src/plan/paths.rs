//! Paths of names beneath the root, and the names in these paths that actions change.

use std::borrow::Cow;
use std::collections::HashMap;

use plimsoll_trace::event::PathId;

use crate::order::Claim;
use crate::root::Name;

/// Paths beneath the root, by index of the path in the trace.
pub(super) struct Paths(Vec<Option<Name>>);

impl Paths {
    pub(super) fn new(count: usize, path_beneath: &impl Fn(PathId) -> Option<Vec<u8>>) -> Self {
        let names = (0..count).map(|index| Name::new(&path_beneath(PathId::new(index)?)?));
        Self(names.collect())
    }

    pub(super) fn get(&self, path: PathId) -> Option<&Name> {
        self.0.get(path.index())?.as_ref()
    }

    pub(super) fn into_names(self) -> Vec<Option<Name>> {
        self.0
    }

    /// For each claimed name: the numbers of the changed names in its path.
    pub(super) fn nodes(&self, claims: &[Claim]) -> Nodes {
        let texts = |path: u32| {
            let name = self.0.get(path as usize).and_then(Option::as_ref);
            variants(name.map_or(&b""[..], |name| name.whole().to_bytes()))
        };
        let mut numbers: HashMap<Cow<'_, [u8]>, u32> = HashMap::new();
        for claim in claims {
            if let Claim::Changes(path) = *claim {
                for text in texts(path) {
                    let next = numbers.len() as u32;
                    numbers.entry(text).or_insert(next);
                }
            }
        }
        let mut nodes = Nodes::default();
        if numbers.is_empty() {
            return nodes;
        }
        for claim in claims {
            let (Claim::Names(path) | Claim::Changes(path)) = *claim else {
                continue;
            };
            nodes.by_path.entry(path).or_insert_with(|| {
                let on_the_way = texts(path).flat_map(|whole| {
                    let ends = memchr::memchr_iter(b'/', &whole).chain([whole.len()]);
                    let changed = ends.filter_map(|end| numbers.get(&whole[..end]).copied());
                    changed.collect::<Vec<u32>>()
                });
                let mut nodes: Vec<u32> = Vec::new();
                for node in on_the_way {
                    if !nodes.contains(&node) {
                        nodes.push(node);
                    }
                }
                nodes.into()
            });
        }
        nodes
    }
}

/// A name; if it contains `..`, also the name with all `..` resolved, as if no component were a
/// link.
fn variants(name: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let has_dots = memchr::memmem::find(name, b"..").is_some();
    let without = has_dots.then(|| Cow::Owned(crate::names::without_dots(name)));
    [Cow::Borrowed(name)].into_iter().chain(without)
}

/// The changed names in the path of each claimed name; see [`Paths::nodes`].
#[derive(Default)]
pub(super) struct Nodes {
    by_path: HashMap<u32, Box<[u32]>>,
}

impl Nodes {
    pub(super) fn of(&self, path: u32) -> &[u32] {
        self.by_path.get(&path).map_or(&[], |nodes| nodes)
    }
}
