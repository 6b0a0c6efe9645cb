//! The bulk operations as functions of the database (PL/pgSQL): one statement for a request,
//! without `BEGIN` and `COMMIT` if the client has no transaction.
//!
//! Results and permissions are those of the server's logic. The functions do not know ACLs and
//! symbolic links. If a directory on the way has an ACL, or a name is that of a link, they change
//! nothing, and the server's logic carries out the whole request
//! ([`StoreTally::function_fallbacks`]). The root directory as a key is left to it, too. The form
//! of paths, GUIDs and replicas is checked here.
//!
//! [`StoreTally::function_fallbacks`]: crate::catalogue::tally::StoreTally::function_fallbacks

mod arrays;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::Ordering;

use plimsoll_wire::catalogue::{EntryData, Key, NewEntry, Reply, Request, Status};

use self::arrays::{Array, statuses};
use super::Store;
use super::entries::{MAX_REPLICA, PERMISSIONS, host, now, split};
use super::groups::User;
use super::paths::names;
use crate::ServiceError;
use crate::catalogue::database::{Database, DatabaseError, Value, WriteLock};
use crate::data::catalogue::FILE;

/// The statements that create the functions.
const FUNCTIONS: &str = include_str!("functions.sql");
const LOOKUP: &str = "SELECT n, status, file, guid, filemode, filesize, owner, sfn \
                      FROM plimsoll_catalogue_1_lookup(?1, ?2, ?3, ?4, ?5, ?6)";
const REGISTER: &str =
    "SELECT plimsoll_catalogue_1_register(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
const DELETE: &str = "SELECT plimsoll_catalogue_1_delete(?1, ?2, ?3, ?4, ?5, ?6)";

/// Creates the functions, or replaces those of the same version.
pub(in crate::catalogue) fn create_functions(database: &Path) -> Result<(), ServiceError> {
    let mut database = Database::open(database, &WriteLock::default())?;
    database
        .create_functions(FUNCTIONS)
        .map_err(|error| ServiceError::Server {
            what: "cannot create the functions of the catalogue".into(),
            why: error.to_string(),
        })
}

/// Different directories as an array, which are numbered from 1.
struct Directories<'k> {
    paths: Array,
    places: HashMap<&'k str, i64>,
}

impl<'k> Directories<'k> {
    fn new() -> Self {
        Self {
            paths: Array::new(),
            places: HashMap::new(),
        }
    }

    /// Number of the directory in a valid path, and the name in it.
    fn place(&mut self, path: &'k str) -> (i64, &'k str) {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let next = self.places.len() as i64 + 1;
        let place = *self.places.entry(above).or_insert_with(|| {
            self.paths.push_text(above.trim_start_matches('/'));
            next
        });
        (place, name)
    }
}

/// The keys of a request as arrays.
struct Keys {
    directories: String,
    kinds: String,
    places: String,
    texts: String,
    /// Index in the request of each element.
    indexes: Vec<usize>,
}

impl Keys {
    /// The keys without invalid paths. None: one of them is the root directory.
    fn new(keys: &[Key]) -> Option<Self> {
        let mut directories = Directories::new();
        let [mut kinds, mut places, mut texts] = [(); 3].map(|()| Array::new());
        let mut indexes = Vec::with_capacity(keys.len());
        for (index, key) in keys.iter().enumerate() {
            let (kind, place, text) = match key {
                Key::Path(path) => match names(path) {
                    Some(names) if names.is_empty() => return None,
                    Some(_) => {
                        let (place, name) = directories.place(path);
                        (0, place, name)
                    }
                    None => continue,
                },
                Key::Guid(guid) => (1, 0, guid.as_str()),
                Key::Replica(name) => (2, 0, name.as_str()),
            };
            kinds.push_int(kind);
            places.push_int(place);
            texts.push_text(text);
            indexes.push(index);
        }
        Some(Self {
            directories: directories.paths.end(),
            kinds: kinds.end(),
            places: places.end(),
            texts: texts.end(),
            indexes,
        })
    }

    fn values<'a>(&'a self, user: &User, groups: &'a str) -> [Value<'a>; 6] {
        [
            Value::Int(user.number),
            Value::Text(groups),
            Value::Text(&self.directories),
            Value::Text(&self.kinds),
            Value::Text(&self.places),
            Value::Text(&self.texts),
        ]
    }
}

/// New entries as arrays.
struct NewRows<'k> {
    directories: Directories<'k>,
    /// In the order of the values of [`REGISTER`].
    columns: [Array; 7],
}

impl<'k> NewRows<'k> {
    fn new() -> Self {
        Self {
            directories: Directories::new(),
            columns: [(); 7].map(|()| Array::new()),
        }
    }

    fn push(&mut self, entry: &'k NewEntry) {
        let (place, name) = self.directories.place(&entry.path);
        let [places, names, guids, modes, sizes, hosts, replicas] = &mut self.columns;
        places.push_int(place);
        names.push_text(name);
        guids.push_text(&entry.guid);
        modes.push_int(i64::from(FILE | (entry.mode & PERMISSIONS)));
        sizes.push_int(i64::try_from(entry.size).unwrap_or(i64::MAX));
        hosts.push_text(host(&entry.replica));
        replicas.push_text(&entry.replica);
    }

    fn end(self) -> Vec<String> {
        let arrays = std::iter::once(self.directories.paths).chain(self.columns);
        arrays.map(Array::end).collect()
    }
}

impl Store<'_> {
    /// Carries out a request by a function. None: there is none, or the server's logic must do it.
    pub(super) fn call_function(
        &mut self,
        user: &User,
        request: &Request,
    ) -> Result<Option<Reply>, DatabaseError> {
        let reply = match request {
            Request::Lookup(keys) => self.call_lookup(user, keys)?.map(Reply::Entries),
            Request::Register(entries) => self.call_register(user, entries)?.map(Reply::Results),
            Request::Delete(keys) => self.call_delete(user, keys)?.map(Reply::Results),
            _ => return Ok(None),
        };
        let tally = &self.tables.tally;
        let counter = match reply {
            Some(_) => &tally.function_calls,
            None => &tally.function_fallbacks,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(reply)
    }

    fn call_lookup(
        &mut self,
        user: &User,
        keys: &[Key],
    ) -> Result<Option<Vec<Option<EntryData>>>, DatabaseError> {
        let Some(arrays) = Keys::new(keys) else {
            return Ok(None);
        };
        let mut entries: Vec<Option<EntryData>> = vec![None; keys.len()];
        for row in self.database.query(LOOKUP, &arrays.values(user, &groups(user)))? {
            let index = arrays.indexes.get((row.int(0) - 1) as usize);
            let (Some(index), 0) = (index, row.int(1)) else {
                return Ok(None);
            };
            let entry = entries[*index].get_or_insert_with(|| EntryData {
                file: row.int(2) as u64,
                guid: row.text(3),
                mode: row.int(4) as u32,
                size: row.int(5) as u64,
                owner: row.int(6) as u32,
                replicas: Vec::new(),
            });
            entry
                .replicas
                .extend(Some(row.text(7)).filter(|name| !name.is_empty()));
        }
        for entry in entries.iter_mut().flatten() {
            entry.replicas.sort_unstable();
        }
        Ok(Some(entries))
    }

    fn call_register(
        &mut self,
        user: &User,
        entries: &[NewEntry],
    ) -> Result<Option<Vec<Status>>, DatabaseError> {
        let results: Vec<Status> = entries.iter().map(checked).collect();
        let is_valid = |index: &usize| results[*index] == Status::OK;
        let indexes: Vec<usize> = (0..entries.len()).filter(is_valid).collect();
        if indexes.is_empty() {
            return Ok(Some(results));
        }
        let mut rows = NewRows::new();
        for index in &indexes {
            rows.push(&entries[*index]);
        }
        let first = self.new_files(indexes.len())?;
        let (groups, arrays) = (groups(user), rows.end());
        let mut values = vec![
            Value::Int(user.number),
            Value::Int(user.group()),
            Value::Text(&groups),
            Value::Int(now()),
            Value::Int(first),
        ];
        values.extend(arrays.iter().map(|array| Value::Text(array)));
        let found = self.call_statuses(REGISTER, &values)?;
        Ok(merged(results, &indexes, found.as_deref()))
    }

    fn call_delete(&mut self, user: &User, keys: &[Key]) -> Result<Option<Vec<Status>>, DatabaseError> {
        let Some(arrays) = Keys::new(keys) else {
            return Ok(None);
        };
        let results = vec![Status::INVALID; keys.len()];
        if arrays.indexes.is_empty() {
            return Ok(Some(results));
        }
        let found = self.call_statuses(DELETE, &arrays.values(user, &groups(user)))?;
        Ok(merged(results, &arrays.indexes, found.as_deref()))
    }

    /// The statuses that a function returns. None: it has changed nothing.
    fn call_statuses(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<Option<Vec<Status>>, DatabaseError> {
        let rows = self.repeat(|store| store.database.query(sql, values))?;
        Ok(rows.first().and_then(|row| statuses(&row.text(0))))
    }
}

/// The groups of a user as an array.
fn groups(user: &User) -> String {
    let mut groups = Array::new();
    for group in &user.groups {
        groups.push_int(*group);
    }
    groups.end()
}

/// Whether an entry has a form that can be registered.
fn checked(entry: &NewEntry) -> Status {
    if (1..=MAX_REPLICA).contains(&entry.replica.len()) {
        split(entry, FILE).err().unwrap_or(Status::OK)
    } else {
        Status::INVALID
    }
}

/// The results of a request, with those that a function has found at these indexes.
fn merged(mut results: Vec<Status>, indexes: &[usize], found: Option<&[Status]>) -> Option<Vec<Status>> {
    for (index, status) in indexes.iter().zip(found?) {
        results[*index] = *status;
    }
    Some(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_one_directory_share_its_path_and_invalid_ones_are_not_sent() {
        let path = |path: &str| Key::Path(path.into());
        let keys = [
            path("/a/b"),
            path("/a/c"),
            path("/a//c"),
            path("/d"),
            Key::Guid("g".into()),
            Key::Replica("r".into()),
        ];
        let arrays = Keys::new(&keys).unwrap();
        assert_eq!(arrays.directories, r#"{"a",""}"#);
        assert_eq!(arrays.kinds, "{0,0,0,1,2}");
        assert_eq!(arrays.places, "{1,1,2,0,0}");
        assert_eq!(arrays.texts, r#"{"b","c","d","g","r"}"#);
        assert_eq!(arrays.indexes, [0, 1, 3, 4, 5]);
        assert!(Keys::new(&[path("/")]).is_none());
    }
}
