//! Access control lists after POSIX 1003.1e draft 17: pure functions of rows.
//!
//! A list is in the column `acl` in the form of LFC: `A7101,B4102,C5101,E50,F50`, sorted. A letter
//! is a tag, `A` to `F` in the order of [`AclTag`], and `a` to `f` for entries that new entries of
//! a directory inherit; a digit has the permissions; the rest is the number of the user or the
//! group, and 0 for the mask and for others. A list with nothing but the permissions of the mode is
//! not stored: the column is NULL, which is empty here.
//!
//! The group's bits of the mode are those of the mask, if there is one, as in acl(5). Two details
//! are those of acl(5) and not of LFC: a user with several groups has the permissions of each, and
//! a change of the mode changes the mask alone, and not also the entry of the group.

#[cfg(test)]
mod kernel;

use plimsoll_wire::catalogue::{AclEntry, AclTag};

use super::groups::User;

/// An entry with numbers of users and groups.
pub(super) type Entry = AclEntry<i64>;

/// Letter of the first tag, and of the first one of entries that are inherited.
const FIRST: [u8; 2] = *b"Aa";
/// All permissions of one class.
const ALL: u32 = 7;
/// Bits of a mode that an ACL does not contain: type, set-user, set-group and sticky bit.
const OTHER_BITS: u32 = !0o777;

/// What determines the permissions of an entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Protection<'a> {
    pub(super) owner: i64,
    pub(super) group: i64,
    /// Type and permissions.
    pub(super) mode: u32,
    /// The column; empty: the mode has all permissions.
    pub(super) acl: &'a str,
}

impl Protection<'_> {
    /// Whether a user has all of the permissions `wanted`. A column that is not an ACL permits
    /// nothing, except to the owner.
    pub(super) fn permits(&self, user: &User, wanted: u32) -> bool {
        let grants = |permissions: u32| permissions & wanted == wanted;
        if user.number == self.owner {
            return grants(self.mode >> 6);
        }
        if self.acl.is_empty() {
            let shift = if user.is_member(self.group) { 3 } else { 0 };
            return grants(self.mode >> shift);
        }
        let Some(entries) = parse(self.acl) else {
            return false;
        };
        let access = || entries.iter().filter(|entry| !entry.is_default);
        let of_tag = |tag| access().find(|entry| entry.tag == tag);
        let mask = of_tag(AclTag::Mask).map_or(ALL, |entry| entry.permissions);
        if let Some(entry) = of_tag(AclTag::User(user.number)) {
            return grants(entry.permissions & mask);
        }
        let is_of_group = |entry: &&Entry| match entry.tag {
            AclTag::OwningGroup => user.is_member(self.group),
            AclTag::Group(group) => user.is_member(group),
            _ => false,
        };
        let mut groups = access().filter(is_of_group).peekable();
        if groups.peek().is_some() {
            return groups.any(|entry| grants(entry.permissions & mask));
        }
        grants(self.mode)
    }

    /// All entries: those of the column, or of the mode. None: the column is not an ACL.
    pub(super) fn entries(&self) -> Option<Vec<Entry>> {
        if self.acl.is_empty() {
            Some(of_mode(self.mode))
        } else {
            parse(self.acl)
        }
    }

    /// The column after a change of the mode.
    pub(super) fn with_mode(&self, mode: u32) -> String {
        let Some(mut entries) = parse(self.acl) else {
            return String::new();
        };
        each_class(&mut entries, |class, permissions| {
            *permissions = mode >> class & ALL;
        });
        column(&entries, self.owner, self.group)
    }
}

/// The entries of a mode.
fn of_mode(mode: u32) -> Vec<Entry> {
    let classes = [(AclTag::Owner, 6), (AclTag::OwningGroup, 3), (AclTag::Other, 0)];
    let entry = |(tag, class)| Entry {
        is_default: false,
        tag,
        permissions: mode >> class & ALL,
    };
    classes.map(entry).into()
}

/// The mode with the permissions of a list.
pub(super) fn mode_of(mode: u32, entries: &[Entry]) -> u32 {
    let mut access = entries.to_vec();
    let mut bits = 0;
    each_class(&mut access, |class, permissions| bits |= *permissions << class);
    mode & OTHER_BITS | bits
}

/// Calls `change` with the permissions that are those of the mode, and the shift of their bits.
fn each_class(entries: &mut [Entry], mut change: impl FnMut(u32, &mut u32)) {
    let has_mask = entries
        .iter()
        .any(|entry| !entry.is_default && entry.tag == AclTag::Mask);
    for entry in entries.iter_mut().filter(|entry| !entry.is_default) {
        let class = match entry.tag {
            AclTag::Owner => 6,
            AclTag::Mask => 3,
            AclTag::OwningGroup if !has_mask => 3,
            AclTag::Other => 0,
            _ => continue,
        };
        change(class, &mut entry.permissions);
    }
}

/// Whether entries are a complete list: the owner, the group and others once; each user and each
/// group at most once; a mask if there is a user or a group. A list that is inherited must be
/// complete, too, and only a directory has one.
pub(super) fn is_valid(entries: &[Entry], is_directory: bool) -> bool {
    let is_complete = |is_default: bool| {
        let tags = || entries.iter().filter(move |entry| entry.is_default == is_default);
        let count = |tag: AclTag<i64>| tags().filter(|entry| entry.tag == tag).count();
        let is_named = |tag: &AclTag<i64>| matches!(tag, AclTag::User(_) | AclTag::Group(_));
        let has_names = tags().any(|entry| is_named(&entry.tag));
        let masks = count(AclTag::Mask);
        [AclTag::Owner, AclTag::OwningGroup, AclTag::Other]
            .into_iter()
            .all(|tag| count(tag) == 1)
            && (masks == 1 || masks == 0 && !has_names)
            && tags().all(|entry| count(entry.tag.clone()) == 1)
    };
    let is_inherited = entries.iter().any(|entry| entry.is_default);
    is_complete(false) && (!is_inherited || is_directory && is_complete(true))
}

/// The mode and the column of a new entry with the mode `mode` in a directory.
pub(super) fn inherited(
    directory: &str,
    mode: u32,
    is_directory: bool,
    owner: i64,
    group: i64,
) -> (u32, String) {
    let Some(mut entries) = parse(directory) else {
        return (mode, String::new());
    };
    entries.retain(|entry| entry.is_default);
    if entries.is_empty() {
        return (mode, String::new());
    }
    let of_directory = if is_directory { entries.clone() } else { Vec::new() };
    for entry in &mut entries {
        entry.is_default = false;
    }
    each_class(&mut entries, |class, permissions| {
        *permissions &= mode >> class & ALL;
    });
    let mode = mode_of(mode, &entries);
    entries.extend(of_directory);
    (mode, column(&entries, owner, group))
}

/// The column of a list; empty if the mode has all of its permissions.
pub(super) fn column(entries: &[Entry], owner: i64, group: i64) -> String {
    let is_of_mode = |entry: &Entry| {
        let is_class = matches!(entry.tag, AclTag::Owner | AclTag::OwningGroup | AclTag::Other);
        is_class && !entry.is_default
    };
    if entries.iter().all(is_of_mode) {
        return String::new();
    }
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    sorted.sort_unstable();
    let items = sorted.into_iter().map(|entry| {
        let (place, number) = match entry.tag {
            AclTag::Owner => (0, owner),
            AclTag::User(number) => (1, number),
            AclTag::OwningGroup => (2, group),
            AclTag::Group(number) => (3, number),
            AclTag::Mask => (4, 0),
            AclTag::Other => (5, 0),
        };
        let letter = char::from(FIRST[usize::from(entry.is_default)] + place);
        format!("{letter}{}{number}", entry.permissions & ALL)
    });
    items.collect::<Vec<_>>().join(",")
}

/// The entries of a column. None: it is empty, or not an ACL.
fn parse(column: &str) -> Option<Vec<Entry>> {
    column.split(',').map(item).collect()
}

fn item(text: &str) -> Option<Entry> {
    let (&letter, rest) = text.as_bytes().split_first()?;
    let is_default = letter.is_ascii_lowercase();
    let number = text.get(2..)?.parse().ok()?;
    let tag = match letter.wrapping_sub(FIRST[usize::from(is_default)]) {
        0 => AclTag::Owner,
        1 => AclTag::User(number),
        2 => AclTag::OwningGroup,
        3 => AclTag::Group(number),
        4 => AclTag::Mask,
        5 => AclTag::Other,
        _ => return None,
    };
    let permissions = u32::from(rest.first()?.checked_sub(b'0')?);
    (permissions <= ALL).then_some(Entry {
        is_default,
        tag,
        permissions,
    })
}

#[cfg(test)]
mod tests {
    use super::super::node::{READ, SEARCH, WRITE};
    use super::*;

    fn user(number: i64, groups: &[i64]) -> User {
        User {
            number,
            groups: groups.to_vec(),
        }
    }

    const ALL_OF: u32 = READ | WRITE | SEARCH;

    /// Owner 1 and group 10 in all cases; the algorithm of acl(5), case by case.
    #[test]
    fn a_list_is_evaluated_as_in_acl_5() {
        // Mode (with the mask as group), column, user, its groups, what it may do.
        let cases: [(u32, &str, i64, &[i64], u32); 22] = [
            // Without a list: owner, group, others; the first that applies decides.
            (0o704, "", 1, &[], ALL_OF),
            (0o074, "", 1, &[10], 0),
            (0o057, "", 2, &[10], READ | SEARCH),
            (0o057, "", 2, &[11, 10], READ | SEARCH),
            (0o057, "", 2, &[11], ALL_OF),
            (0o057, "", 2, &[], ALL_OF),
            // The owner's entry is that of the mode, whatever else is in the list.
            (0o770, "A71,B02,C710,E70,F00", 1, &[10], ALL_OF),
            (0o070, "A01,B71,C710,E70,F70", 1, &[10], 0),
            // A user's entry decides before groups and others, limited by the mask.
            (0o757, "A71,B62,C710,E50,F70", 2, &[10], READ),
            (0o757, "A71,B02,C710,E70,F70", 2, &[10], 0),
            (0o707, "A71,B72,C710,E00,F70", 2, &[], 0),
            // Other users.
            (0o774, "A71,B72,C710,E70,F40", 3, &[], READ),
            // The group of the file, limited by the mask, if there is one.
            (0o754, "A71,B72,C610,E50,F40", 3, &[10], READ),
            (0o767, "A71,C610,a71,c710,f70", 3, &[10], READ | WRITE),
            // Groups: one entry must have all permissions that are wanted.
            (0o770, "A71,C410,D211,E70,F70", 3, &[11], WRITE),
            (0o770, "A71,C410,D211,E70,F70", 3, &[10, 11], READ | WRITE),
            (0o777, "A71,C010,D011,E70,F70", 3, &[10, 11], 0),
            (0o777, "A71,C010,D011,E70,F70", 3, &[12], ALL_OF),
            // The mask limits neither the owner nor others.
            (0o707, "A71,C710,D711,E00,F70", 3, &[12], ALL_OF),
            (0o707, "A71,C710,D711,E00,F70", 1, &[11], ALL_OF),
            // Entries to inherit permit nothing.
            (0o700, "A71,C010,F00,a71,b72,c710,e70,f70", 2, &[10], 0),
            // What is not a list.
            (0o777, "A71,X", 2, &[10], 0),
        ];
        for (mode, acl, number, groups, may) in cases {
            let protection = Protection {
                owner: 1,
                group: 10,
                mode,
                acl,
            };
            let user = user(number, groups);
            for wanted in [READ, WRITE, SEARCH] {
                let expected = may & wanted != 0;
                let case = (mode, acl, number, groups, wanted);
                assert_eq!(protection.permits(&user, wanted), expected, "{case:?}");
            }
        }
        // Two entries with one permission each are not one with both.
        let split = Protection {
            owner: 1,
            group: 10,
            mode: 0o770,
            acl: "A71,C410,D211,E70,F70",
        };
        assert!(!split.permits(&user(3, &[10, 11]), READ | WRITE));
    }

    #[test]
    fn a_column_is_read_as_it_was_written() {
        for text in ["A71,B4102,C510,E50,F50", "A61,C410,F40,a71,b02,c510,d511,e50,f00"] {
            let entries = parse(text).unwrap();
            assert_eq!(column(&entries, 1, 10), text);
            assert!(is_valid(&entries, true));
        }
        assert_eq!(column(&of_mode(0o754), 1, 10), "");
        for wrong in ["", "A", "A7", "A8,", "G70", "@70", "A71,", "A7x", "ä71"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_complete_lists_are_valid() {
        let valid = |text: &str, is_directory| is_valid(&parse(text).unwrap(), is_directory);
        assert!(valid("A71,C510,F50", false));
        assert!(
            valid("A71,C510,E70,F50", false),
            "a mask is permitted without names"
        );
        for wrong in [
            "A71,C510",
            "A71,A61,C510,F50",
            "A71,B72,C510,F50",
            "A71,C510,D711,F50",
            "A71,B72,B62,C510,E70,F50",
            "A71,C510,E70,E60,F50",
            "A71,C510,F50,a71",
            "A71,C510,F50,a71,b72,c510,f50",
            "a71,c510,f50",
        ] {
            assert!(!valid(wrong, true), "{wrong}");
        }
        let inherited = "A71,C510,F50,a71,c510,f50";
        assert!(valid(inherited, true) && !valid(inherited, false));
    }

    #[test]
    fn the_mode_and_the_list_have_the_same_permissions() {
        let mode = |text: &str| mode_of(0o42_000, &parse(text).unwrap());
        assert_eq!(mode("A71,B72,C610,E50,F40"), 0o42_754);
        assert_eq!(mode("A71,C610,F40,a01,c010,f00"), 0o42_764);
        let changed = |acl| {
            let protection = Protection {
                owner: 1,
                group: 10,
                mode: 0,
                acl,
            };
            protection.with_mode(0o100_421)
        };
        assert_eq!(changed("A71,B72,C610,E50,F40"), "A41,B72,C610,E20,F10");
        assert_eq!(changed("A71,C610,F40,a71,c710,f70"), "A41,C210,F10,a71,c710,f70");
        assert_eq!(changed(""), "");
    }

    #[test]
    fn new_entries_inherit_the_list_of_their_directory() {
        let parent = "A71,C710,F70,a71,b62,c510,e70,f50";
        let of_file = inherited(parent, 0o100_640, false, 5, 11);
        assert_eq!(of_file, (0o100_640, "A65,B62,C511,E40,F00".into()));
        let of_directory = inherited(parent, 0o40_777, true, 5, 11);
        let list = "A75,B62,C511,E70,F50,a75,b62,c511,e70,f50";
        assert_eq!(of_directory, (0o40_775, list.into()));
        let minimal = inherited("A71,C710,F70,a71,c510,f50", 0o100_666, false, 5, 11);
        assert_eq!(minimal, (0o100_644, String::new()));
        for none in ["", "A71,B72,C710,E70,F70"] {
            assert_eq!(
                inherited(none, 0o100_640, false, 5, 11),
                (0o100_640, String::new())
            );
        }
    }
}
