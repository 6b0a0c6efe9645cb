//! CPUs in use at all sites, and what a job could use there under the policies.

use std::sync::Arc;

use super::config::Sites;
use super::policy::{Limit, Owner};

/// CPUs in use by site, organisation and group.
#[derive(Debug)]
pub(super) struct Usage {
    sites: Arc<Sites>,
    by_site: Vec<u32>,
    by_vo: Vec<u32>,
    by_group: Vec<u32>,
    /// CPUs of each site that lower limits reserve and that are not in use.
    reserved: Vec<u32>,
}

/// The usage of one site that concerns one job.
#[derive(Clone, Copy)]
struct SiteUsage {
    site: u32,
    vo: u32,
    group: u32,
    reserved: u32,
}

impl Usage {
    pub(super) fn new(sites: Arc<Sites>) -> Self {
        let (organisations, groups) = sites.policies.lengths();
        let reserved = (0..sites.cpus.len())
            .map(|site| u32::try_from(sites.policies.reserved(site)).unwrap_or(u32::MAX))
            .collect();
        Self {
            by_site: vec![0; sites.cpus.len()],
            by_vo: vec![0; organisations],
            by_group: vec![0; groups],
            reserved,
            sites,
        }
    }

    /// CPUs that a job of `owner` can use at a site now.
    pub(super) fn capacity(&self, site: u32, owner: Owner) -> u32 {
        let (vo, group) = self.sites.policies.indices(site, owner);
        let used = SiteUsage {
            site: self.by_site[site as usize],
            vo: self.by_vo[vo],
            group: self.by_group[group],
            reserved: self.reserved[site as usize],
        };
        self.capacity_with(site, owner, used)
    }

    /// CPUs that a job of `owner` could use at a site without other jobs.
    pub(super) fn greatest_capacity(&self, site: u32, owner: Owner) -> u32 {
        let reserved = self.sites.policies.reserved(site as usize);
        let used = SiteUsage {
            site: 0,
            vo: 0,
            group: 0,
            reserved: u32::try_from(reserved).unwrap_or(u32::MAX),
        };
        self.capacity_with(site, owner, used)
    }

    fn capacity_with(&self, site: u32, owner: Owner, used: SiteUsage) -> u32 {
        let policies = &self.sites.policies;
        let (vo, group) = policies.indices(site, owner);
        let (of_vo, of_group) = (policies.of_vo(vo), policies.of_group(group));
        let own_reserve = match of_vo.limit {
            Limit::Lower => of_vo.cpus.saturating_sub(used.vo),
            Limit::Target | Limit::Upper => 0,
        };
        let mut capacity = self.sites.cpus[site as usize]
            .saturating_sub(used.site)
            .saturating_sub(used.reserved.saturating_sub(own_reserve));
        for (share, used) in [(of_vo, used.vo), (of_group, used.group)] {
            if share.limit == Limit::Upper {
                capacity = capacity.min(share.cpus.saturating_sub(used));
            }
        }
        capacity
    }

    /// Rank of a site for a job: twice its capacity, or once where the organisation or the group
    /// has reached its target.
    pub(super) fn rank(&self, site: u32, owner: Owner) -> u64 {
        let policies = &self.sites.policies;
        let (vo, group) = policies.indices(site, owner);
        let shares = [
            (policies.of_vo(vo), self.by_vo[vo]),
            (policies.of_group(group), self.by_group[group]),
        ];
        let has_reached = shares
            .iter()
            .any(|(share, used)| share.limit == Limit::Target && *used >= share.cpus);
        u64::from(self.capacity(site, owner)) * if has_reached { 1 } else { 2 }
    }

    /// Share of the CPUs of a site that is in use; above 1 if jobs wait there.
    pub(super) fn fraction(&self, site: u32) -> f64 {
        f64::from(self.by_site[site as usize]) / f64::from(self.sites.cpus[site as usize])
    }

    /// CPUs in use at all sites.
    pub(super) fn total(&self) -> u64 {
        self.by_site.iter().copied().map(u64::from).sum()
    }

    pub(super) fn add(&mut self, site: u32, owner: Owner, cpus: u32) {
        self.change(site, owner, |used| used.saturating_add(cpus));
    }

    pub(super) fn remove(&mut self, site: u32, owner: Owner, cpus: u32) {
        self.change(site, owner, |used| used.saturating_sub(cpus));
    }

    fn change(&mut self, site: u32, owner: Owner, changed: impl Fn(u32) -> u32) {
        let (vo, group) = self.sites.policies.indices(site, owner);
        let share = self.sites.policies.of_vo(vo);
        let (before, after) = (self.by_vo[vo], changed(self.by_vo[vo]));
        if share.limit == Limit::Lower {
            let reserved = &mut self.reserved[site as usize];
            *reserved = (*reserved + share.cpus.saturating_sub(after)) - share.cpus.saturating_sub(before);
        }
        self.by_vo[vo] = after;
        self.by_group[group] = changed(self.by_group[group]);
        self.by_site[site as usize] = changed(self.by_site[site as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::GridConfig;
    use super::*;

    const A: Owner = Owner { vo: 0, group: 0 };
    const B: Owner = Owner { vo: 1, group: 0 };

    fn usage(rules: &[&str]) -> Usage {
        let config = GridConfig {
            sites: 1,
            organisations: 2,
            groups: 2,
            cpus: [100, 100],
            policies: rules.iter().map(|&rule| rule.into()).collect(),
            ..GridConfig::default()
        };
        Usage::new(Arc::new(config.sites().unwrap()))
    }

    #[test]
    fn an_upper_limit_of_an_organisation_or_a_group_is_not_exceeded() {
        let mut usage = usage(&["* vo0 40+", "* vo0.group0 50+"]);
        assert_eq!((usage.capacity(0, A), usage.capacity(0, B)), (20, 100));
        usage.add(0, A, 15);
        assert_eq!((usage.capacity(0, A), usage.capacity(0, B)), (5, 85));
        usage.add(0, Owner { vo: 0, group: 1 }, 23);
        assert_eq!(usage.capacity(0, A), 2, "the limit of the organisation");
        assert_eq!(usage.greatest_capacity(0, A), 20);
        usage.remove(0, A, 15);
        assert_eq!(usage.capacity(0, A), 17);
        assert!((usage.fraction(0) - 0.23).abs() < 1e-9);
    }

    #[test]
    fn a_lower_limit_stays_free_for_its_organisation() {
        let mut usage = usage(&["* vo0 30-"]);
        assert_eq!((usage.capacity(0, A), usage.capacity(0, B)), (100, 70));
        usage.add(0, B, 70);
        assert_eq!((usage.capacity(0, A), usage.capacity(0, B)), (30, 0));
        usage.add(0, A, 30);
        assert_eq!((usage.capacity(0, A), usage.capacity(0, B)), (0, 0));
        usage.remove(0, B, 10);
        assert_eq!((usage.capacity(0, A), usage.capacity(0, B)), (10, 10));
        usage.remove(0, A, 30);
        assert_eq!((usage.capacity(0, A), usage.capacity(0, B)), (40, 10));
    }

    #[test]
    fn a_site_at_which_the_target_is_reached_ranks_lower() {
        let mut usage = usage(&["* vo0 10"]);
        assert_eq!(usage.rank(0, A), 200);
        usage.add(0, A, 10);
        assert_eq!(usage.rank(0, A), 90);
        assert_eq!(usage.rank(0, B), 180);
        assert_eq!(usage.capacity(0, A), 90, "a target can be exceeded");
    }
}
