//! Files that a workload names, where an agent's host has them under other names.
//!
//! What is in a file of queries or values stands in the run document itself; a few keys of drivers
//! hold names. Only those are looked at, and only a whole word is replaced: a text that happens to
//! look like a path is nobody's business.

use std::collections::BTreeMap;

use plimsoll_model::RunSpec;
use serde_json::Value;

/// Keys of drivers' settings and requests whose text is the name of a file, or which hold words of
/// which some are.
const KEYS: [&str; 9] = [
    "ca_file",
    "cert",
    "key",
    "token_file",
    "body_file",
    "files",
    "command",
    "env",
    "trace",
];

/// The run with the names that its files have on a host. `files`: name in the document, and there.
pub(crate) fn there(spec: &RunSpec, files: &BTreeMap<String, String>) -> RunSpec {
    let mut own = spec.clone();
    if files.is_empty() {
        return own;
    }
    for workload in &mut own.workloads {
        rename(&mut workload.settings, files);
        for operation in &mut workload.operations {
            rename(&mut operation.request, files);
        }
    }
    own
}

fn rename(value: &mut Value, files: &BTreeMap<String, String>) {
    let Value::Object(entries) = value else { return };
    for (key, value) in entries {
        let named = KEYS.contains(&key.as_str());
        match value {
            Value::Array(words) if named => words.iter_mut().for_each(|word| replace(word, files)),
            Value::Object(words) if named => words.values_mut().for_each(|word| replace(word, files)),
            Value::String(_) if named => replace(value, files),
            Value::Object(_) => rename(value, files),
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
    fn whole_words_of_keys_that_name_files_are_replaced_and_nothing_else() {
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
        rename(&mut value, &files);
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
