//! A database whose rows are known.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use plimsoll_services::data;
use rusqlite::Connection;
use serde_json::json;

/// Number of rows of `t_string`, with 100 bytes each.
pub const ROWS: u64 = 1_000;
/// Size of all its texts, bytes.
pub const BYTES: u64 = 100_000;
/// Query for three rows with values of every kind: 19 bytes as text.
pub const KINDS: &str = "SELECT i, r, t, b FROM kinds";
/// Query that does not end and returns no row.
pub const ENDLESS: &str =
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c";

/// A directory with a database, which is removed when this is dropped.
pub struct Database {
    pub directory: PathBuf,
    pub file: PathBuf,
}

impl Database {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("plimsoll-drive-{}-database-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).unwrap();
        let file = directory.join("db?x=1.sqlite");
        let connection = Connection::open(&file).unwrap();
        connection
            .execute_batch(
                "CREATE TABLE kinds (i INTEGER, r REAL, t TEXT, b BLOB);
                 INSERT INTO kinds VALUES (-5, 1.5, 'x', x'00ff07'), (NULL, 1e300, '', NULL), (0, 1, 'z', x'');",
            )
            .unwrap();
        let table = json!({"name": "t_string", "rows": ROWS, "row": 100, "compressibility": 10.0, "seed": 1});
        let config = json!({"database": file, "tables": [table]});
        data::write(&serde_json::from_value(config).unwrap()).unwrap();
        Self { directory, file }
    }

    pub fn url(&self) -> String {
        format!("sqlite:{}", self.file.display())
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
