//! Measures the memory of a controller with very many agents. It is run by hand:
//! `many_quic LINKS [SECONDS] [WINDOW_KIB]`.
//!
//! This process is the controller. The agents are processes of this program with at most 25,000
//! links each, all over one socket, and a token on standard input. Each link sends 200 bytes every
//! 30 s. The program prints its memory when all links are connected, and again SECONDS (95) later,
//! with the longest silence of any link in between and the number of links that were late by more
//! than a tenth of 30 s.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plimsoll_link::dial::Dialer;
use plimsoll_link::identity::Keys;
use plimsoll_link::listen::{Bounds, Listener};
use plimsoll_link::token::{Source, Token};
use plimsoll_link::transport::{Link, Transport};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const ENGINE: &str = "0";
const LINKS_PER_PROCESS: u64 = 25_000;
const PERIOD: Duration = Duration::from_secs(30);
/// A link that was silent for longer than this is late.
const MAX_SILENCE: Duration = Duration::from_secs(33);
const MESSAGE_BYTES: usize = 200;
/// Maximum time between two new links, and for each step of an agent process.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of concurrent handshakes of one process.
const MAX_HANDSHAKES: usize = 32;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |index: usize, default: u64| arguments.get(index).map_or(default, |text| text.parse().unwrap());
    match arguments.first().map(String::as_str) {
        Some("agents") => agents(number(1, 0)).await,
        Some(_) => controller(number(0, 0), Duration::from_secs(number(1, 95)), number(2, 1024)).await,
        None => println!("many_quic LINKS [SECONDS] [WINDOW_KIB]"),
    }
}

/// A process with agents, which is killed when this is dropped.
struct Agents(Child);

impl Drop for Agents {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn controller(links: u64, watched: Duration, window_kib: u64) {
    let keys = Keys::generate().unwrap();
    let bounds = Bounds {
        unfinished_per_source: 1000,
        window: (window_kib << 10) as u32,
        ..Bounds::default()
    };
    let quic = [Transport::Quic];
    let mut listener = Listener::bind(&keys, [127, 0, 0, 1].into(), 0..=0, &quic, bounds).unwrap();
    let addresses = vec![listener.address().to_string()];
    let token = Token::new("many", ENGINE, &keys, addresses, quic.to_vec(), 0).unwrap();
    let before = memory_kib("VmRSS:");
    let begin = Instant::now();
    let _agents: Vec<Agents> = (0..links.div_ceil(LINKS_PER_PROCESS))
        .map(|process| start(&token, LINKS_PER_PROCESS.min(links - process * LINKS_PER_PROCESS)))
        .collect();

    let heard: Arc<[Silence]> = (0..links).map(|_| Silence::default()).collect();
    for index in 0..links as usize {
        let link = timeout(TIMEOUT, listener.accept())
            .await
            .expect("no further link in time");
        tokio::spawn(hear(link, Arc::clone(&heard), index, begin));
    }
    let took = begin.elapsed().as_secs_f64();
    println!("{links} links in {took:.1} s, {:.0}/s", links as f64 / took);
    report("connected", links, before);

    // The last links send their first message one period later.
    sleep(PERIOD).await;
    let (cpu, from) = (cpu_seconds(), Instant::now());
    heard.iter().for_each(|silence| silence.begin(begin));
    sleep(watched).await;
    let longest: Vec<Duration> = heard.iter().map(|silence| silence.end(begin)).collect();
    let late = longest.iter().filter(|&&silence| silence > MAX_SILENCE).count();
    report("after the wait", links, before);
    println!(
        "{late} links were silent for more than {} s within {} s, the longest silence was {:.1} s; {:.2} cores; {:?}",
        MAX_SILENCE.as_secs(),
        watched.as_secs(),
        longest.iter().max().map_or(0.0, Duration::as_secs_f64),
        (cpu_seconds() - cpu) / from.elapsed().as_secs_f64(),
        listener.counters()
    );
}

/// The silence of a link, ms. `last` is the time of the last message since the start.
#[derive(Default)]
struct Silence {
    last: AtomicU64,
    longest: AtomicU64,
}

impl Silence {
    fn now(since: Instant) -> u64 {
        since.elapsed().as_millis() as u64
    }

    fn hear(&self, since: Instant) {
        let now = Self::now(since);
        let silent = now - self.last.swap(now, Ordering::Relaxed).min(now);
        self.longest.fetch_max(silent, Ordering::Relaxed);
    }

    /// Discards the longest silence so far. The present silence continues.
    fn begin(&self, since: Instant) {
        self.longest.store(0, Ordering::Relaxed);
        if self.last.load(Ordering::Relaxed) == 0 {
            self.last.store(Self::now(since), Ordering::Relaxed);
        }
    }

    fn end(&self, since: Instant) -> Duration {
        self.hear(since);
        Duration::from_millis(self.longest.load(Ordering::Relaxed))
    }
}

fn start(token: &Token, links: u64) -> Agents {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["agents", &links.to_string()])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(token.reveal().as_bytes())
        .unwrap();
    Agents(child)
}

async fn hear(mut link: Link, heard: Arc<[Silence]>, index: usize, since: Instant) {
    let mut buffer = [0; 64];
    while let Ok(1..) = link.reader.read(&mut buffer).await {
        heard[index].hear(since);
    }
}

/// Runs `links` agents until all links have ended, because the controller has ended.
async fn agents(links: u64) {
    let token = Token::read(&Source::Stdin).unwrap();
    let dialer = Arc::new(Dialer::new(&token, ENGINE).unwrap());
    let handshakes = Arc::new(Semaphore::new(MAX_HANDSHAKES));
    let mut tasks = JoinSet::new();
    for index in 0..links {
        let permit = Arc::clone(&handshakes).acquire_owned().await.unwrap();
        let dialer = Arc::clone(&dialer);
        tasks.spawn(async move {
            let link = dialer.dial(TIMEOUT).await;
            drop(permit);
            let mut link = match link {
                Ok(link) => link,
                Err(error) => return println!("{error}"),
            };
            let first = tokio::time::Instant::now() + PERIOD.mul_f64(index as f64 / links as f64);
            let mut due = tokio::time::interval_at(first, PERIOD);
            due.tick().await;
            while link.writer.write_all(&[b'x'; MESSAGE_BYTES]).await.is_ok() {
                due.tick().await;
            }
        });
    }
    tasks.join_all().await;
}

fn report(when: &str, links: u64, before: u64) {
    let (now, peak) = (memory_kib("VmRSS:"), memory_kib("VmHWM:"));
    let each = (now - before) as f64 * 1024.0 / links as f64;
    println!(
        "{when}: {:.1} MB ({:.1} MB before, peak {:.1} MB): {each:.0} bytes a link",
        now as f64 * 1.024e-3,
        before as f64 * 1.024e-3,
        peak as f64 * 1.024e-3,
    );
}

/// A value of `proc_pid_status(5)`, KiB.
fn memory_kib(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// User and system time of this process, s: fields 14 and 15 of `proc_pid_stat(5)`, in ticks of
/// 10 ms.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
    fields
        .skip(11)
        .take(2)
        .map(|ticks| ticks.parse::<f64>().unwrap() / 100.0)
        .sum()
}
