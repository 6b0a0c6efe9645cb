//! Usage policies of sites, with the shares that were published for GRUBER: an organisation has a
//! share of a site, and each of its groups has a share of that.
//!
//! A rule is a text `SITE ENTITY SHARE`. SITE is `site12` or `*`. ENTITY is `vo3` or `*` for
//! organisations, and `vo3.group7`, `vo3.*`, `*.group7` or `*.*` for groups. SHARE is a percentage:
//! `20.5` is a target, `20.5+` an upper limit, `20.5-` a lower limit. A later rule replaces an
//! earlier one. An entity without a rule has no limit.
//!
//! - An upper limit is never exceeded.
//! - CPUs of a lower limit that its organisation does not use stay free for it. Groups have no
//!   lower limits.
//! - A target can be exceeded where CPUs are free. A site at which the target is reached ranks
//!   lower than others (`usage.rs`).

use rand::RngExt;
use rand_pcg::Pcg64;
use thiserror::Error;

/// Share of a site's CPUs that lower limits may reserve together in generated policies.
const MAX_GENERATED_RESERVE: f64 = 0.5;

/// Kind of a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    Target,
    Upper,
    Lower,
}

/// What an organisation or a group may use of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) cpus: u32,
    pub(super) limit: Limit,
}

/// A share that limits nothing.
const FREE: Share = Share {
    cpus: u32::MAX,
    limit: Limit::Target,
};

/// Why rules cannot be used.
#[derive(Debug, Clone, PartialEq, Error)]
pub(super) enum PolicyError {
    #[error(
        "\"{0}\": expected SITE ENTITY SHARE, such as \"* vo3 20.5+\" or \"site7 vo3.group1 50\", with numbers \
         that exist and a share of 0 to 100"
    )]
    Form(String),
    #[error("\"{0}\": a group has no lower limit: use a target (20) or an upper limit (20+)")]
    LowerLimitOfGroup(String),
    #[error("site{site}: the lower limits are {reserved} of its {cpus} CPUs: reduce them")]
    TooMuchReserved { site: usize, reserved: u64, cpus: u32 },
}

/// The organisation and the group of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) vo: u16,
    pub(super) group: u16,
}

/// The shares of all organisations and groups at all sites.
#[derive(Debug)]
pub(super) struct Policies {
    organisations: usize,
    groups: usize,
    by_vo: Vec<Share>,
    by_group: Vec<Share>,
}

struct Rule {
    site: Numbers,
    vo: Numbers,
    /// None: a rule for organisations.
    group: Option<Numbers>,
    percent: f64,
    limit: Limit,
}

impl Policies {
    /// The policies of `rules` for sites with these numbers of CPUs.
    pub(super) fn of_rules(
        rules: &[String],
        cpus: &[u32],
        organisations: u16,
        groups: u16,
    ) -> Result<Self, PolicyError> {
        let mut policies = Self::free(cpus.len(), organisations, groups);
        let counts = (cpus.len(), policies.organisations, policies.groups);
        let rules = rules
            .iter()
            .map(|text| parse(text, counts))
            .collect::<Result<Vec<_>, _>>()?;
        // The shares of groups follow from those of their organisations.
        for rule in rules.iter().filter(|rule| rule.group.is_none()) {
            for site in rule.site.range(counts.0) {
                for vo in rule.vo.range(counts.1) {
                    let index = policies.vo_index(site, vo);
                    policies.by_vo[index] = share(rule.percent, rule.limit, cpus[site]);
                }
            }
        }
        for rule in &rules {
            let Some(group) = rule.group else { continue };
            for site in rule.site.range(counts.0) {
                for vo in rule.vo.range(counts.1) {
                    let whole = policies.whole_of_groups(site, vo, cpus[site]);
                    for group in group.range(counts.2) {
                        let index = policies.vo_index(site, vo) * counts.2 + group;
                        policies.by_group[index] = share(rule.percent, rule.limit, whole);
                    }
                }
            }
        }
        for (site, &cpus) in cpus.iter().enumerate() {
            let reserved = policies.reserved(site);
            if reserved > u64::from(cpus) {
                return Err(PolicyError::TooMuchReserved { site, reserved, cpus });
            }
        }
        Ok(policies)
    }

    /// Random policies: each site refuses a quarter of the organisations, limits half of them to 5
    /// to 40 % of its CPUs, and has targets and a few lower limits for the others. Half of the
    /// groups have an upper limit of 20 to 100 %, the others a target.
    pub(super) fn generated(rng: &mut Pcg64, cpus: &[u32], organisations: u16, groups: u16) -> Self {
        let mut policies = Self::free(cpus.len(), organisations, groups);
        for (site, &cpus) in cpus.iter().enumerate() {
            let mut reserved = 0.0;
            for vo in 0..policies.organisations {
                let (kind, size): (f64, f64) = (rng.random(), rng.random());
                let lower = 2.0 + 6.0 * size;
                let (percent, limit) = if kind < 0.25 {
                    (0.0, Limit::Upper)
                } else if kind < 0.75 {
                    (5.0 + 35.0 * size, Limit::Upper)
                } else if kind < 0.8 && reserved + lower <= 100.0 * MAX_GENERATED_RESERVE {
                    reserved += lower;
                    (lower, Limit::Lower)
                } else {
                    (1.0 + 4.0 * size, Limit::Target)
                };
                let index = policies.vo_index(site, vo);
                policies.by_vo[index] = share(percent, limit, cpus);
                let whole = policies.whole_of_groups(site, vo, cpus);
                for group in 0..policies.groups {
                    let (kind, size): (f64, f64) = (rng.random(), rng.random());
                    let (percent, limit) = if kind < 0.5 {
                        (20.0 + 80.0 * size, Limit::Upper)
                    } else {
                        (5.0 + 15.0 * size, Limit::Target)
                    };
                    policies.by_group[index * usize::from(groups) + group] = share(percent, limit, whole);
                }
            }
        }
        policies
    }

    fn free(sites: usize, organisations: u16, groups: u16) -> Self {
        let (organisations, groups) = (usize::from(organisations), usize::from(groups));
        Self {
            organisations,
            groups,
            by_vo: vec![FREE; sites * organisations],
            by_group: vec![FREE; sites * organisations * groups],
        }
    }

    fn vo_index(&self, site: usize, vo: usize) -> usize {
        site * self.organisations + vo
    }

    /// CPUs that are divided among the groups: the upper limit of their organisation, or the site.
    fn whole_of_groups(&self, site: usize, vo: usize, cpus: u32) -> u32 {
        let share = self.by_vo[self.vo_index(site, vo)];
        if share.limit == Limit::Upper {
            share.cpus
        } else {
            cpus
        }
    }

    /// Index of an organisation at a site, and of a group, in tables of all sites.
    pub(super) fn indices(&self, site: u32, owner: Owner) -> (usize, usize) {
        let vo = self.vo_index(site as usize, usize::from(owner.vo));
        (vo, vo * self.groups + usize::from(owner.group))
    }

    pub(super) fn of_vo(&self, index: usize) -> Share {
        self.by_vo[index]
    }

    pub(super) fn of_group(&self, index: usize) -> Share {
        self.by_group[index]
    }

    /// CPUs of a site that lower limits reserve.
    pub(super) fn reserved(&self, site: usize) -> u64 {
        let from = self.vo_index(site, 0);
        let shares = &self.by_vo[from..from + self.organisations];
        let lower = shares.iter().filter(|share| share.limit == Limit::Lower);
        lower.map(|share| u64::from(share.cpus)).sum()
    }

    /// Lengths of tables with an entry for each organisation, and for each group, at all sites.
    pub(super) fn lengths(&self) -> (usize, usize) {
        (self.by_vo.len(), self.by_group.len())
    }
}

/// A share in CPUs: at least one, unless the percentage is 0. A lower limit is rounded down, so
/// that lower limits of 100 % together do not exceed the site.
fn share(percent: f64, limit: Limit, whole: u32) -> Share {
    let exact = percent / 100.0 * f64::from(whole);
    let cpus = match limit {
        Limit::Lower => exact.floor(),
        Limit::Target | Limit::Upper => exact.ceil(),
    };
    Share {
        cpus: cpus as u32,
        limit,
    }
}

/// The sites, organisations or groups that a rule concerns.
#[derive(Clone, Copy)]
enum Numbers {
    All,
    One(usize),
}

impl Numbers {
    /// Parses `*`, or a prefix with a number below `count`.
    fn parse(word: &str, prefix: &str, count: usize) -> Option<Self> {
        if word == "*" {
            return Some(Self::All);
        }
        let digits = word.strip_prefix(prefix)?;
        let number = digits.parse().ok()?;
        (number < count && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(Self::One(number))
    }

    fn range(self, count: usize) -> std::ops::Range<usize> {
        match self {
            Self::All => 0..count,
            Self::One(number) => number..number + 1,
        }
    }
}

fn parse(text: &str, (sites, organisations, groups): (usize, usize, usize)) -> Result<Rule, PolicyError> {
    let rule = || {
        let mut words = text.split_whitespace();
        let (site, entity, share) = (words.next()?, words.next()?, words.next()?);
        let (vo, group) = match entity.split_once('.') {
            Some((vo, group)) => (vo, Some(Numbers::parse(group, "group", groups)?)),
            None => (entity, None),
        };
        let (percent, limit) = match share.as_bytes().last()? {
            b'+' => (&share[..share.len() - 1], Limit::Upper),
            b'-' => (&share[..share.len() - 1], Limit::Lower),
            _ => (share, Limit::Target),
        };
        let percent: f64 = percent.parse().ok()?;
        ((0.0..=100.0).contains(&percent) && words.next().is_none()).then_some(Rule {
            site: Numbers::parse(site, "site", sites)?,
            vo: Numbers::parse(vo, "vo", organisations)?,
            group,
            percent,
            limit,
        })
    };
    let rule = rule().ok_or_else(|| PolicyError::Form(text.to_owned()))?;
    if rule.group.is_some() && rule.limit == Limit::Lower {
        return Err(PolicyError::LowerLimitOfGroup(text.to_owned()));
    }
    Ok(rule)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn policies(rules: &[&str]) -> Result<Policies, PolicyError> {
        let rules: Vec<String> = rules.iter().map(|&rule| rule.to_owned()).collect();
        Policies::of_rules(&rules, &[100, 10], 3, 2)
    }

    #[test]
    fn a_later_rule_replaces_an_earlier_one_and_groups_have_shares_of_their_organisation() {
        let found = policies(&[
            "*  * 50+",
            "site1 vo2 20.5-",
            "*.* 1 ",
            "* *.* 100",
            "* vo0.group1 30+",
        ]);
        assert_eq!(found.unwrap_err(), PolicyError::Form("*.* 1 ".into()));
        let found = policies(&[
            "* * 50+",
            "site1 vo2 20.5-",
            "* vo0.group1 30+",
            "* vo2.group0 30+",
        ])
        .unwrap();
        let share = |site, vo| found.of_vo(found.indices(site, Owner { vo, group: 0 }).0);
        let group = |site, vo, group| found.of_group(found.indices(site, Owner { vo, group }).1);
        let upper = |cpus| Share {
            cpus,
            limit: Limit::Upper,
        };
        assert_eq!((share(0, 0), share(1, 0)), (upper(50), upper(5)));
        assert_eq!((share(1, 2).cpus, share(1, 2).limit), (2, Limit::Lower));
        assert_eq!((group(0, 0, 1), group(1, 0, 1)), (upper(15), upper(2)));
        assert_eq!(
            group(1, 2, 0),
            upper(3),
            "of the site, if there is no upper limit"
        );
        assert_eq!(group(0, 0, 0), FREE);
        assert_eq!(found.reserved(1), 2);
    }

    #[test]
    fn invalid_rules_are_refused() {
        for rule in [
            "",
            "* vo0",
            "* vo3 5",
            "site2 vo0 5",
            "* vo0.group2 5",
            "* vo0 101",
            "* vo0 x",
            "* vo0 +",
            "* vo0 5 5",
            "* vo+1 5",
            "* vo0 nan",
        ] {
            let error = policies(&[rule]).unwrap_err();
            assert_eq!(error, PolicyError::Form(rule.into()));
            assert!(error.to_string().contains("SITE ENTITY SHARE"));
        }
        let error = policies(&["* vo0.* 5-"]).unwrap_err();
        assert!(matches!(error, PolicyError::LowerLimitOfGroup(_)), "{error}");
        let error = policies(&["* * 40-"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "site0: the lower limits are 120 of its 100 CPUs: reduce them"
        );
    }

    #[test]
    fn generated_policies_depend_only_on_the_seed_and_reserve_at_most_half_of_a_site() {
        let cpus = [10, 100, 1000];
        let generate = |seed| Policies::generated(&mut Pcg64::seed_from_u64(seed), &cpus, 60, 10);
        let (first, again, other) = (generate(1), generate(1), generate(2));
        assert_eq!(first.by_group, again.by_group);
        assert_ne!(first.by_vo, other.by_vo);
        for (site, &cpus) in cpus.iter().enumerate() {
            assert!(2 * first.reserved(site) <= u64::from(cpus));
        }
        let refused = first.by_vo.iter().filter(|share| share.cpus == 0).count();
        assert!((20..=70).contains(&refused), "{refused} of 180");
    }
}
