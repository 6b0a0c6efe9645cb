//! Files of `/proc` that are read every second and stay open: to open one takes longer than to read
//! it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The open files, by their paths below `/proc`.
#[derive(Debug, Default)]
pub(crate) struct ProcFiles(BTreeMap<&'static str, File>);

impl ProcFiles {
    /// The present content of a file. None if it does not exist or cannot be read; the next call
    /// opens it again.
    pub(crate) fn read(&mut self, proc: &Path, name: &'static str) -> Option<String> {
        if !self.0.contains_key(name) {
            self.0.insert(name, File::open(proc.join(name)).ok()?);
        }
        let content = read_from_start(self.0.get(name)?);
        if content.is_err() {
            self.0.remove(name);
        }
        String::from_utf8(content.ok()?).ok()
    }
}

fn read_from_start(file: &File) -> io::Result<Vec<u8>> {
    let mut content = vec![0; 4096];
    let mut length = 0;
    loop {
        match file.read_at(&mut content[length..], length as u64)? {
            0 => break,
            read => length += read,
        }
        if length == content.len() {
            content.resize(2 * length, 0);
        }
    }
    content.truncate(length);
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_present_content_at_every_reading() {
        let directory = std::env::temp_dir().join(format!("plimsoll-files-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut files = ProcFiles::default();
        assert_eq!(files.read(&directory, "stat"), None);
        for length in [10, 4096, 20_000, 3, 0] {
            let text = "x".repeat(length);
            std::fs::write(directory.join("stat"), &text).unwrap();
            assert_eq!(files.read(&directory, "stat"), Some(text));
        }
        std::fs::remove_dir_all(&directory).unwrap();
        let uptime = |files: &mut ProcFiles| files.read(Path::new("/proc"), "uptime").unwrap();
        let first = uptime(&mut files);
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert_ne!(uptime(&mut files), first);
    }
}
