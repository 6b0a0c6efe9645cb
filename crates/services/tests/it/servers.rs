//! Real database servers on free ports of the loopback interface, as an unprivileged user. Tests
//! that run at the same time share one server.
//!
//! If the software is missing, a test prints SKIPPED and the reason. With `CI=true` it fails.

use std::fmt::Write as _;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::support::Scratch;

/// User and group number of `nobody` on every Linux.
const NOBODY: u32 = 65_534;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Postgres,
    Mariadb,
}

/// The process of a server, and the thread that started it. The thread lives as long as the
/// process, because a process with a death signal ends with the thread that started it.
struct Life {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

pub struct Server {
    pub kind: Kind,
    pub port: u16,
    directory: Scratch,
    options: &'static [&'static str],
    life: Mutex<Option<Life>>,
}

/// The shared server of this kind. `None` if the software is missing.
pub fn shared(kind: Kind) -> Option<Arc<Server>> {
    static SHARED: [Mutex<Weak<Server>>; 2] = [const { Mutex::new(Weak::new()) }; 2];
    let mut slot = SHARED[kind as usize]
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    slot.upgrade().or_else(|| {
        let server = Arc::new(Server::new(kind)?);
        *slot = Arc::downgrade(&server);
        Some(server)
    })
}

/// The shared servers of both kinds, without those whose software is missing.
pub fn all() -> impl Iterator<Item = Arc<Server>> {
    [Kind::Postgres, Kind::Mariadb].into_iter().filter_map(shared)
}

#[allow(clippy::print_stdout, reason = "the output of the tests contains the reason")]
fn skipped(reason: &str) {
    println!("SKIPPED: {reason}");
    assert!(
        std::env::var_os("CI").is_none_or(|ci| ci != "true"),
        "with CI=true nothing may be skipped: {reason}"
    );
}

/// The directory with the programs of the newest `PostgreSQL`.
fn postgres_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut directories: Vec<PathBuf> = versions
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    directories.retain(|path| path.join("initdb").is_file() && path.join("postgres").is_file());
    directories.sort();
    directories.pop()
}

fn program(name: &str) -> Option<PathBuf> {
    ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"]
        .iter()
        .map(|directory| Path::new(directory).join(name))
        .find(|path| path.is_file())
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// A command that runs as `nobody` if this process is root, because the servers refuse root.
fn unprivileged(program: &Path, home: &Path) -> Command {
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--pdeathsig=KILL",
        ]);
        command
    } else {
        let mut command = Command::new("setpriv");
        command.arg("--pdeathsig=KILL");
        command
    };
    command.arg(program).env("HOME", home).env("LC_ALL", "C.UTF-8");
    command.stdin(Stdio::null());
    command
}

fn must(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

impl Server {
    /// A server for one test. A `MariaDB` writes a binary log.
    pub fn new(kind: Kind) -> Option<Self> {
        let log: &[&str] = &["--log-bin=log", "--binlog-format=ROW", "--server-id=1"];
        Self::with(kind, if kind == Kind::Mariadb { log } else { &[] })
    }

    /// A server for one test, with these options.
    pub fn with(kind: Kind, options: &'static [&'static str]) -> Option<Self> {
        let missing = match kind {
            Kind::Postgres if postgres_programs().is_none() => "postgresql",
            Kind::Postgres if program("psql").is_none() => "postgresql-client",
            Kind::Mariadb if program("mariadbd").is_none() => "mariadb-server",
            Kind::Mariadb if program("mariadb").is_none() => "mariadb-client",
            _ if program("setpriv").is_none() => "util-linux (setpriv)",
            _ => "",
        };
        if !missing.is_empty() {
            skipped(&format!("the Debian package {missing} is not installed"));
            return None;
        }
        let directory = Scratch::new();
        if is_root() {
            std::os::unix::fs::chown(&directory.0, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        std::fs::set_permissions(&directory.0, std::fs::Permissions::from_mode(0o755)).unwrap();
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let server = Self {
            kind,
            port,
            directory,
            options,
            life: Mutex::new(None),
        };
        server.prepare();
        server.begin();
        Some(server)
    }

    fn prepare(&self) {
        let home = &self.directory.0;
        match self.kind {
            Kind::Postgres => {
                let initdb = postgres_programs().unwrap().join("initdb");
                let data = home.join("data");
                let mut command = unprivileged(&initdb, home);
                must(
                    command
                        .args(["-U", "lab", "-A", "trust", "--no-sync", "-D"])
                        .arg(data),
                );
            }
            Kind::Mariadb => {
                let install = program("mariadb-install-db").unwrap();
                must(
                    unprivileged(&install, home)
                        .args([
                            "--no-defaults",
                            "--auth-root-authentication-method=normal",
                            "--skip-test-db",
                        ])
                        .arg(format!("--datadir={}", home.join("data").display()))
                        // At its start, a server removes the temporary tables of all other
                        // servers from /tmp.
                        .arg(format!("--tmpdir={}", home.display())),
                );
            }
        }
    }

    fn command(&self) -> Command {
        let home = &self.directory.0;
        let data = home.join("data");
        let port = self.port.to_string();
        match self.kind {
            Kind::Postgres => {
                let mut command = unprivileged(&postgres_programs().unwrap().join("postgres"), home);
                command.arg("-D").arg(data).args(["-p", &port, "-k"]).arg(home);
                for setting in ["listen_addresses=127.0.0.1", "fsync=off", "shared_buffers=64MB"] {
                    command.args(["-c", setting]);
                }
                command.args(self.options);
                command
            }
            Kind::Mariadb => {
                let mut command = unprivileged(&program("mariadbd").unwrap(), home);
                command.args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-name-resolve"]);
                command.arg(format!("--datadir={}", data.display()));
                command.arg(format!("--tmpdir={}", home.display()));
                command.arg(format!("--port={port}"));
                command.arg(format!("--socket={}", home.join("socket").display()));
                command.arg(format!("--pid-file={}", home.join("pid").display()));
                command.args(self.options);
                command
            }
        }
    }

    /// Starts the server, and waits until it answers.
    pub fn begin(&self) {
        let log = std::fs::File::create(self.directory.0.join("log")).unwrap();
        let mut command = self.command();
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let (stop, stopped) = mpsc::channel();
        let polite = match self.kind {
            Kind::Postgres => "-INT", // a fast shutdown: with TERM the server waits for its clients
            Kind::Mariadb => "-TERM",
        };
        let thread = std::thread::spawn(move || {
            let mut child = command.spawn().unwrap();
            let _ = stopped.recv();
            end(&mut child, polite);
        });
        *self.life.lock().unwrap_or_else(PoisonError::into_inner) = Some(Life { stop, thread });
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.answers() {
            let log = std::fs::read_to_string(self.directory.0.join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "the server does not start:\n{log}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn answers(&self) -> bool {
        TcpStream::connect(("127.0.0.1", self.port)).is_ok() && self.client("", "SELECT 1").is_ok()
    }

    /// Ends the server, and waits for it.
    pub fn end(&self) {
        let life = self.life.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Life { stop, thread }) = life {
            drop(stop);
            let _ = thread.join();
        }
    }

    /// The output of the server's own client for these statements, without headings. Columns are
    /// separated by `|`.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        self.client(database, sql)
            .unwrap_or_else(|why| panic!("{sql}: {why}"))
    }

    fn client(&self, database: &str, sql: &str) -> Result<String, String> {
        let port = self.port.to_string();
        let mut command = match self.kind {
            Kind::Postgres => {
                let mut command = Command::new("psql");
                let database = if database.is_empty() { "postgres" } else { database };
                command.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", &port]);
                command.args(["-U", "lab", database]);
                command
            }
            Kind::Mariadb => {
                let mut command = Command::new("mariadb");
                command.args([
                    "--no-defaults",
                    "-NB",
                    "-h127.0.0.1",
                    "-P",
                    &port,
                    "-uroot",
                    database,
                ]);
                command
            }
        };
        let pipes = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = pipes.spawn().unwrap();
        child.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().replace('\t', "|");
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(text(&output.stderr))
        }
    }

    /// Creates a database with these tables. Returns its name.
    pub fn database(&self, setup: &str) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("d{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.sql("", &format!("CREATE DATABASE {name}"));
        self.sql(&name, setup);
        name
    }

    pub fn url(&self, database: &str) -> String {
        let mut url = String::new();
        let port = self.port;
        let _ = match self.kind {
            Kind::Postgres => write!(url, "postgresql://lab@127.0.0.1:{port}/{database}"),
            Kind::Mariadb => write!(url, "mysql://root@127.0.0.1:{port}/{database}"),
        };
        url
    }

    /// Number of sleeping queries that run in this database now. Others, such as those with which
    /// the gateway looks for changes, are not counted.
    pub fn busy(&self, database: &str) -> u32 {
        let sql = match self.kind {
            Kind::Postgres => format!(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}' AND state = 'active' AND \
                 query LIKE '%sleep(%' AND pid <> pg_backend_pid()"
            ),
            Kind::Mariadb => format!(
                "SELECT count(*) FROM information_schema.processlist WHERE db = '{database}' AND command = 'Query' AND \
                 info LIKE '%sleep(%'"
            ),
        };
        self.sql("", &sql).parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Sends this signal, and SIGKILL if the process does not end.
fn end(child: &mut Child, first_signal: &str) {
    let signal = |name: &str, child: &Child| {
        let _ = Command::new("kill")
            .args([name, &child.id().to_string()])
            .status();
    };
    signal(first_signal, child);
    let deadline = Instant::now() + Duration::from_secs(5);
    while let Ok(None) = child.try_wait() {
        if Instant::now() > deadline {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
