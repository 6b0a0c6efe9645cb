//! Site selectors: how a decision point chooses among the sites with capacity.

use rand::RngExt;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use super::policy::Owner;
use super::usage::Usage;

/// How a site is chosen. Every selector takes only sites that have, in the view of the decision
/// point, enough free CPUs for the job under the policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selector {
    /// Each of these sites with the same probability.
    Random,
    /// The site with the smallest share of its CPUs in use.
    LeastUsed,
    /// The site with the highest rank for the job under the policies.
    #[default]
    Policy,
}

/// A site for a job of `owner` that needs this number of CPUs; none if no site has them. Equal
/// sites have equal chances: the search begins at a random site.
pub(super) fn choose(
    selector: Selector,
    usage: &Usage,
    sites: u32,
    owner: Owner,
    cpus: u32,
    rng: &mut Pcg64,
) -> Option<u32> {
    let first = rng.random_range(0..sites);
    let usable = (0..sites)
        .map(|offset| (first + offset) % sites)
        .filter(|&site| usage.capacity(site, owner) >= cpus);
    match selector {
        Selector::Random => {
            let usable: Vec<u32> = usable.collect();
            let index = (!usable.is_empty()).then(|| rng.random_range(0..usable.len()))?;
            Some(usable[index])
        }
        Selector::LeastUsed => usable.min_by(|&a, &b| usage.fraction(a).total_cmp(&usage.fraction(b))),
        // `max_by_key` returns the last of equal sites, in an order that begins at random.
        Selector::Policy => usable.max_by_key(|&site| usage.rank(site, owner)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rand::SeedableRng;

    use super::super::config::GridConfig;
    use super::*;

    const A: Owner = Owner { vo: 0, group: 0 };

    #[test]
    fn each_selector_has_its_rule_and_none_takes_a_site_without_capacity() {
        let config = GridConfig {
            sites: 4,
            organisations: 1,
            groups: 1,
            cpus: [100, 100],
            policies: vec![
                "site0 vo0 0+".into(),
                "site1 vo0 30+".into(),
                "site2 vo0 60+".into(),
            ],
            ..GridConfig::default()
        };
        let mut usage = Usage::new(Arc::new(config.sites().unwrap()));
        usage.add(3, A, 50);
        let mut rng = Pcg64::seed_from_u64(1);
        let mut drawn = |selector, cpus| {
            let mut found: Vec<_> = (0..200)
                .map(|_| choose(selector, &usage, 4, A, cpus, &mut rng))
                .collect();
            found.sort_unstable();
            found.dedup();
            found
        };
        assert_eq!(drawn(Selector::Random, 1), [Some(1), Some(2), Some(3)]);
        assert_eq!(drawn(Selector::Random, 40), [Some(2), Some(3)]);
        assert_eq!(drawn(Selector::LeastUsed, 1), [Some(1), Some(2)]);
        assert_eq!(drawn(Selector::LeastUsed, 61), [None]);
        assert_eq!(drawn(Selector::Policy, 1), [Some(2)]);
    }
}
