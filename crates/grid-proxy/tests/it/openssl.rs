//! The second opinion: `openssl verify` on every row of the table.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;

use crate::make::NOW;
use crate::rows::{self, Openssl};

/// A directory that is removed when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("plimsoll-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn pem(certificates: &[CertificateDer<'_>]) -> String {
    let mut text = String::new();
    for certificate in certificates {
        let encoded = STANDARD.encode(certificate);
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in encoded.as_bytes().chunks(64) {
            text.push_str(std::str::from_utf8(line).unwrap());
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

/// Whether the program is missing. With `CI=true` this is a failure.
#[allow(clippy::print_stdout, reason = "the output of the tests contains the reason")]
pub fn is_missing() -> bool {
    let is_missing = Command::new("openssl").arg("version").output().is_err();
    if is_missing {
        println!("SKIPPED: openssl is not installed (apt-get install openssl)");
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "with CI=true nothing may be skipped"
        );
    }
    is_missing
}

/// Whether OpenSSL accepts the chain at this time, and its output.
pub fn opinion(chain: &[CertificateDer<'_>], authority: &CertificateDer<'_>, time: u64) -> (bool, String) {
    let scratch = Scratch::new("grid-proxy-opinion");
    let write = |name: &str, text: String| std::fs::write(scratch.0.join(name), text).unwrap();
    write("ca.pem", pem(std::slice::from_ref(authority)));
    write("first.pem", pem(&chain[..1]));
    // An empty file of further certificates is an error.
    write(
        "chain.pem",
        pem(if chain.len() > 1 { &chain[1..] } else { chain }),
    );
    let file = |name: &str| scratch.0.join(name);
    let done = Command::new("openssl")
        .args([
            "verify",
            "-allow_proxy_certs",
            "-purpose",
            "sslclient",
            "-attime",
            &time.to_string(),
            "-no-CApath",
        ])
        .arg("-CAfile")
        .arg(file("ca.pem"))
        .arg("-untrusted")
        .arg(file("chain.pem"))
        .arg(file("first.pem"))
        .output()
        .unwrap();
    let text = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn openssl_agrees_except_where_the_table_states_why_not() {
    if is_missing() {
        return;
    }
    let mut failed = Vec::new();
    for row in rows::all() {
        let expected = match row.openssl {
            Openssl::NotAsked(reason) => {
                println!("{}: OpenSSL is not asked, because {reason}", row.title);
                continue;
            }
            Openssl::Accepts(why) => {
                assert!(row.expected.is_err() && !why.is_empty(), "{}", row.title);
                true
            }
            Openssl::Agrees => row.expected.is_ok(),
        };
        let (accepts, output) = opinion(&row.chain, &row.authority.der, NOW);
        if accepts != expected {
            failed.push(format!("{}: OpenSSL accepts: {accepts}\n{output}", row.title));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
