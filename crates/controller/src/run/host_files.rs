//! Paths of the files of a workload on an agent's host.
//!
//! The run document contains the contents of files of queries and values. Only the keys that a
//! driver declares (`DriverInfo::file_keys`) contain paths, and only a whole word is replaced:
//! another text may look like a path.

use std::collections::BTreeMap;

use plimsoll_model::RunSpec;
use serde_json::Value;

/// The run with the paths of its files on a host. `files` maps a path in the run document to the
/// path on the host.
pub(crate) fn with_host_files(spec: &RunSpec, files: &BTreeMap<String, String>) -> RunSpec {
    let mut own = spec.clone();
    if files.is_empty() {
        return own;
    }
    for workload in &mut own.workloads {
        let Some(driver) = plimsoll_drive::driver(&workload.driver) else {
            continue; // the agent refuses it, with the list of drivers
        };
        rename(&mut workload.settings, driver.file_keys, files);
        for operation in &mut workload.operations {
            rename(&mut operation.request, driver.file_keys, files);
        }
    }
    own
}

/// Replaces whole paths below `keys`.
fn rename(value: &mut Value, keys: &[&str], files: &BTreeMap<String, String>) {
    let Value::Object(entries) = value else { return };
    for (key, value) in entries {
        let named = keys.contains(&key.as_str());
        match value {
            Value::Array(words) if named => words.iter_mut().for_each(|word| replace(word, files)),
            Value::Object(words) if named => words.values_mut().for_each(|word| replace(word, files)),
            Value::String(_) if named => replace(value, files),
            Value::Object(_) => rename(value, keys, files),
            _ => {}
        }
    }
}

fn replace(word: &mut Value, files: &BTreeMap<String, String>) {
    if let Some(name) = word.as_str().and_then(|word| files.get(word)) {
        *word = Value::String(name.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_whole_paths_of_file_keys_are_replaced() {
        let files = BTreeMap::from([("/here/scan.sh".to_owned(), "/there/file-1/scan.sh".to_owned())]);
        let mut value = json!({
            "tls": {"ca_file": "/here/scan.sh", "cert": "/here/other", "verify": true},
            "files": ["/here/scan.sh"],
            "command": ["sh", "/here/scan.sh", "--log=/here/scan.sh", "/here/scan.sh.bak", 7],
            "stdin": "/here/scan.sh",
            "env": {"SCRIPT": "/here/scan.sh", "PATH": "/bin:/here/scan.sh"},
            "path": "/here/scan.sh",
            "body_file": null,
        });
        let keys = ["ca_file", "cert", "files", "command", "env", "body_file"];
        rename(&mut value, &keys, &files);
        let expected = json!({
            "tls": {"ca_file": "/there/file-1/scan.sh", "cert": "/here/other", "verify": true},
            "files": ["/there/file-1/scan.sh"],
            "command": ["sh", "/there/file-1/scan.sh", "--log=/here/scan.sh", "/here/scan.sh.bak", 7],
            "stdin": "/here/scan.sh",
            "env": {"SCRIPT": "/there/file-1/scan.sh", "PATH": "/bin:/here/scan.sh"},
            "path": "/here/scan.sh",
            "body_file": null,
        });
        assert_eq!(value, expected);
    }
}
