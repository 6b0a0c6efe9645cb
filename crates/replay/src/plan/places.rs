//! Where names are beneath the root, and which of them anybody changes.

use std::borrow::Cow;
use std::collections::HashMap;

use plimsoll_trace::event::PathId;

use crate::order::Claim;
use crate::root::Name;

/// By the place of a path.
pub(super) struct Places(Vec<Option<Name>>);

impl Places {
    pub(super) fn new(count: usize, place: &impl Fn(PathId) -> Option<Vec<u8>>) -> Self {
        let names = (0..count).map(|index| Name::new(&place(PathId::new(index)?)?));
        Self(names.collect())
    }

    pub(super) fn get(&self, path: PathId) -> Option<&Name> {
        self.0.get(path.index())?.as_ref()
    }

    pub(super) fn into_names(self) -> Vec<Option<Name>> {
        self.0
    }

    /// Of each name that is claimed: those on its way that are changed.
    pub(super) fn nodes(&self, claims: &[Claim]) -> Nodes {
        let texts = |path: u32| {
            let name = self.0.get(path as usize).and_then(Option::as_ref);
            ways(name.map_or(&b""[..], |name| name.whole().to_bytes()))
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
                    let found = ends.filter_map(|end| numbers.get(&whole[..end]).copied());
                    found.collect::<Vec<u32>>()
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

/// A name, and where `..` is in it, what it is without, as if no link stood before that.
fn ways(name: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let has_dots = memchr::memmem::find(name, b"..").is_some();
    let without = has_dots.then(|| Cow::Owned(crate::names::without_dots(name)));
    [Cow::Borrowed(name)].into_iter().chain(without)
}

/// See [`Places::nodes`].
#[derive(Default)]
pub(super) struct Nodes {
    by_path: HashMap<u32, Box<[u32]>>,
}

impl Nodes {
    pub(super) fn of(&self, path: u32) -> &[u32] {
        self.by_path.get(&path).map_or(&[], |nodes| nodes)
    }
}
