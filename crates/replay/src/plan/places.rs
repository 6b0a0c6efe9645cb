//! Where names are beneath the root, and which of them anybody changes.

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
        let text = |path: u32| {
            let name = self.0.get(path as usize).and_then(Option::as_ref);
            name.map_or(&b""[..], |name| name.whole().to_bytes())
        };
        let mut numbers: HashMap<&[u8], u32> = HashMap::new();
        for claim in claims {
            if let Claim::Changes(path) = *claim {
                let next = numbers.len() as u32;
                numbers.entry(text(path)).or_insert(next);
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
                let whole = text(path);
                let ends = whole.iter().enumerate().filter(|(_, byte)| **byte == b'/');
                let ends = ends.map(|(at, _)| at).chain([whole.len()]);
                ends.filter_map(|end| numbers.get(&whole[..end]).copied())
                    .collect()
            });
        }
        nodes
    }
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
