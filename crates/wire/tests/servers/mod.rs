//! Real database servers for tests. Each runs as an unprivileged user, on a free port of loopback,
//! in its own directory.
//!
//! A shell is the parent of the server and ends it when the shell's standard input closes, so that
//! nothing remains when a test ends in any way. So a server can be stored in a `static`.
#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::print_stdout, reason = "a test that skips says why")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Kind of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Postgres,
    Mariadb,
}

/// A running server. When it is dropped, it ends and its data are removed.
pub struct Database {
    pub kind: Kind,
    pub port: u16,
    pub directory: PathBuf,
    guard: Option<Child>,
}

/// Ends "$@" when standard input closes; removes the directory unless it is to be kept.
const GUARD: &str = r#"
    directory=$1; signal=$2; shift 2
    "$@" >"$directory/log" 2>&1 </dev/null &
    server=$!
    read -r _
    kill "-$signal" $server; wait $server
    [ -e "$directory/keep" ] || rm -rf "$directory"
"#;

/// The password of every user except `lab`.
pub const PASSWORD: &str = "s e:c/r@t'é";
/// [`PASSWORD`] in a URL.
pub const PASSWORD_ENCODED: &str = "s%20e%3Ac%2Fr%40t%27%C3%A9";

impl Database {
    /// Starts a server. None if the software is missing, and the reason is printed; with `CI=true`
    /// this is a failure.
    pub fn start(kind: Kind) -> Option<Self> {
        let Some(programs) = programs(kind) else {
            let package = match kind {
                Kind::Postgres => "postgresql",
                Kind::Mariadb => "mariadb-server",
            };
            let message = format!("SKIPPED: no {kind:?} here; install the package {package}");
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{message}");
            println!("{message}");
            return None;
        };
        let directory = new_directory();
        make(kind, &programs, &directory);
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let mut database = Self {
            kind,
            port,
            directory,
            guard: None,
        };
        database.up();
        if kind == Kind::Mariadb {
            database.users();
        }
        Some(database)
    }

    /// Starts the server again on the same port and data.
    pub fn up(&mut self) {
        let programs = programs(self.kind).unwrap();
        let _ = std::fs::remove_file(self.directory.join("keep"));
        let (command, signal) = match self.kind {
            Kind::Postgres => (self.postgres(&programs), "QUIT"),
            Kind::Mariadb => (self.mariadb(&programs), "KILL"),
        };
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "sh"]).arg(&self.directory).arg(signal);
        guard.args(unprivileged(&self.directory)).args(command);
        guard
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // Ctrl-C ends only the test; the shell detects its end.
        guard.process_group(0);
        self.guard = Some(guard.spawn().unwrap());
        self.wait();
    }

    /// Ends the server at once, as a crash would; the data stay.
    pub fn down(&mut self) {
        std::fs::write(self.directory.join("keep"), "").unwrap();
        if let Some(mut guard) = self.guard.take() {
            drop(guard.stdin.take());
            guard.wait().unwrap();
        }
    }

    /// Enables TLS from the next start on, with `server.pem` and `server.key` of a directory and
    /// the CA certificate `cas/0123abcd.0`.
    pub fn take_tls(&self, pki: &Path) {
        for (from, to) in [
            ("server.pem", "tls.pem"),
            ("server.key", "tls.key"),
            ("cas/0123abcd.0", "tls-ca.pem"),
        ] {
            let own = self.directory.join(to);
            std::fs::copy(pki.join(from), &own).unwrap();
            std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o600)).unwrap();
            if root() {
                let status = Command::new("chown").arg("nobody:nogroup").arg(&own).status();
                assert!(status.unwrap().success());
            }
        }
    }

    /// Names and files of the settings of TLS; empty without TLS.
    fn tls(&self, names: [&str; 3]) -> Vec<String> {
        let files = names.into_iter().zip(["tls.pem", "tls.key", "tls-ca.pem"]);
        let files = files.map(|(name, file)| (name, self.directory.join(file)));
        let there = files.filter(|(_, file)| file.exists());
        there
            .map(|(name, file)| format!("{name}={}", file.display()))
            .collect()
    }

    /// Puts a rule of `PostgreSQL` for logins before the others.
    pub fn add_rule(&self, rule: &str) {
        let file = self.directory.join("data/pg_hba.conf");
        let rules = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("{rule}\n{rules}")).unwrap();
        let pid = std::fs::read_to_string(self.directory.join("data/postmaster.pid")).unwrap();
        let pid = pid.lines().next().unwrap().to_owned();
        assert!(
            Command::new("kill")
                .args(["-HUP", &pid])
                .status()
                .unwrap()
                .success()
        );
        // The server reads the rules before it accepts another connection.
        let begun = Instant::now();
        let log = || std::fs::read_to_string(self.directory.join("log")).unwrap_or_default();
        while !log().contains("reloading configuration files") {
            assert!(begun.elapsed() < Duration::from_secs(30), "{}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn postgres(&self, programs: &Path) -> Vec<String> {
        let data = self.directory.join("data").display().to_string();
        let settings = [
            "listen_addresses=127.0.0.1",
            "max_connections=400",
            "shared_buffers=64MB",
            "fsync=off",
        ];
        let mut command = vec![
            programs.join("postgres").display().to_string(),
            "-D".into(),
            data,
            "-p".into(),
            self.port.to_string(),
            "-k".into(),
            self.directory.display().to_string(),
        ];
        let tls = self.tls(["ssl_cert_file", "ssl_key_file", "ssl_ca_file"]);
        if !tls.is_empty() {
            command.extend(["-c".to_owned(), "ssl=on".to_owned()]);
            command.extend(tls.into_iter().flat_map(|setting| ["-c".to_owned(), setting]));
        }
        command.extend(
            settings
                .iter()
                .flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()]),
        );
        command
    }

    fn mariadb(&self, programs: &Path) -> Vec<String> {
        let in_directory = |name: &str| self.directory.join(name).display().to_string();
        let mut command = vec![
            programs.join("mariadbd").display().to_string(),
            "--no-defaults".into(),
            format!("--datadir={}", in_directory("data")),
            format!("--tmpdir={}", in_directory("")),
            format!("--socket={}", in_directory("socket")),
            format!("--pid-file={}", in_directory("pid")),
            format!("--port={}", self.port),
            "--bind-address=127.0.0.1".into(),
            "--skip-name-resolve".into(),
            "--innodb-buffer-pool-size=64M".into(),
            "--innodb-flush-log-at-trx-commit=0".into(),
            "--max-allowed-packet=1G".into(),
            "--max-connections=400".into(),
        ];
        command.extend(self.tls(["--ssl-cert", "--ssl-key", "--ssl-ca"]));
        command
    }

    /// Waits until the server accepts logins.
    fn wait(&mut self) {
        let begun = Instant::now();
        loop {
            if self.accepts_logins() {
                return;
            }
            let log = || std::fs::read_to_string(self.directory.join("log")).unwrap_or_default();
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "it does not start: {}",
                log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether the server accepts logins: `PostgreSQL` reports "starting up" for a while, `MariaDB`
    /// sends a greeting.
    fn accepts_logins(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else {
            return false;
        };
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        if self.kind == Kind::Postgres {
            stream
                .write_all(b"\0\0\0\x1f\0\x03\0\0user\0lab\0database\0lab\0\0")
                .unwrap_or_default();
        }
        let mut first = [0];
        stream.read_exact(&mut first).is_ok() && (self.kind == Kind::Mariadb || first == *b"R")
    }

    fn users(&self) {
        let sql = format!(
            "CREATE DATABASE lab; CREATE USER lab@'127.0.0.1'; GRANT ALL ON lab.* TO lab@'127.0.0.1'; \
             CREATE USER native@'127.0.0.1' IDENTIFIED BY '{0}'; GRANT ALL ON lab.* TO native@'127.0.0.1'; \
             CREATE USER idle@'127.0.0.1' IDENTIFIED BY '{0}'; GRANT ALL ON lab.* TO idle@'127.0.0.1'; \
             CREATE USER few@'127.0.0.1' IDENTIFIED BY '{0}' WITH MAX_USER_CONNECTIONS 3; \
             GRANT ALL ON lab.* TO few@'127.0.0.1'",
            PASSWORD.replace('\'', "''")
        );
        let socket = format!("--socket={}", self.directory.join("socket").display());
        let mut command = Command::new("mariadb");
        command.args([
            "--no-defaults",
            "--default-character-set=utf8mb4",
            &socket,
            "-uroot",
            "-e",
            &sql,
        ]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// URL for a user without a password.
    pub fn url(&self) -> String {
        self.url_of("lab")
    }

    /// URL for `user`, which may be `name:password`.
    pub fn url_of(&self, user: &str) -> String {
        self.url_to(user, "lab")
    }

    /// The same, to another database.
    pub fn url_to(&self, user: &str, database: &str) -> String {
        let scheme = match self.kind {
            Kind::Postgres => "postgresql",
            Kind::Mariadb => "mariadb",
        };
        format!("{scheme}://{user}@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.down();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn programs(kind: Kind) -> Option<PathBuf> {
    match kind {
        Kind::Postgres => {
            let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
            let mut directories: Vec<PathBuf> = versions
                .flatten()
                .map(|version| version.path().join("bin"))
                .filter(|programs| programs.join("postgres").exists())
                .collect();
            directories.sort();
            directories.pop()
        }
        Kind::Mariadb => {
            let programs = PathBuf::from("/usr/sbin");
            programs.join("mariadbd").exists().then_some(programs)
        }
    }
}

fn new_directory() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("plimsoll-database-{}-{number}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    std::fs::create_dir(&directory).unwrap();
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    if root() {
        let status = Command::new("chown").arg("nobody").arg(&directory).status();
        assert!(status.unwrap().success());
    }
    directory
}

fn root() -> bool {
    let output = Command::new("id").arg("-u").output().unwrap();
    output.stdout.trim_ascii() == b"0"
}

/// Prefix of a command that must not run as root.
fn unprivileged(home: &Path) -> Vec<String> {
    let mut words = Vec::new();
    if root() {
        words.extend(["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"].map(str::to_owned));
    }
    words.extend([
        "env".to_owned(),
        format!("HOME={}", home.display()),
        "LC_ALL=C.UTF-8".to_owned(),
    ]);
    words
}

fn make(kind: Kind, programs: &Path, directory: &Path) {
    let data = directory.join("data");
    match kind {
        Kind::Postgres => make_postgres(programs, directory, &data),
        Kind::Mariadb => {
            let data = format!("--datadir={}", data.display());
            // A server removes the temporary tables of all others from /tmp as it starts.
            let temporary = format!("--tmpdir={}", directory.display());
            run(
                directory,
                &[
                    "mariadb-install-db",
                    "--no-defaults",
                    "--auth-root-authentication-method=normal",
                    &data,
                    &temporary,
                    "--skip-test-db",
                ],
            );
        }
    }
}

/// `initdb`, the users, and how each of them logs in.
fn make_postgres(programs: &Path, directory: &Path, data: &Path) {
    let program = |name: &str| programs.join(name).display().to_string();
    let data_path = data.display().to_string();
    run(
        directory,
        &[
            &program("initdb"),
            "-D",
            &data_path,
            "-U",
            "lab",
            "-A",
            "trust",
            "--no-sync",
            "-E",
            "UTF8",
        ],
    );
    let password = PASSWORD.replace('\'', "''");
    let sql = format!(
        "CREATE DATABASE lab;\n\
         CREATE ROLE scram LOGIN PASSWORD '{password}';\n\
         CREATE ROLE clear LOGIN PASSWORD '{password}';\n\
         SET password_encryption = 'md5';\n\
         CREATE ROLE md5 LOGIN PASSWORD '{password}';\n\
         CREATE ROLE idle LOGIN PASSWORD '{password}';\n\
         CREATE ROLE few LOGIN PASSWORD '{password}' CONNECTION LIMIT 3;\n"
    );
    let words = unprivileged(directory);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg(program("postgres"));
    command.args(["--single", "-D", &data_path, "-j", "postgres"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let sql = sql.replace(";\n", ";\n\n");
    child.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    let rules = "host all lab 127.0.0.1/32 trust\nhost all scram 127.0.0.1/32 scram-sha-256\n\
                 host all md5 127.0.0.1/32 md5\nhost all clear 127.0.0.1/32 password\n\
                 host all few,idle 127.0.0.1/32 md5\n";
    std::fs::write(data.join("pg_hba.conf"), rules).unwrap();
}

fn run(directory: &Path, command: &[&str]) {
    let words = unprivileged(directory);
    let output = Command::new(&words[0])
        .args(&words[1..])
        .args(command)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}
