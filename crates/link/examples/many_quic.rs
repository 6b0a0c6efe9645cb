//! What very many agents cost a controller, by hand: `many_quic LINKS [SECONDS] [WINDOW_KIB]`. This process is the controller; agents are
//! processes of this program with at most 25,000 links each, all of one socket, and a token on their standard input.
//! Every link says 200 bytes each 30 s. Prints what this process holds when all are connected, and after SECONDS (65), with the
//! number of links that were not heard once for every 30 s of them.
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
const A_PROCESS: u64 = 25_000;
const PERIOD: Duration = Duration::from_secs(30);
const MESSAGE: usize = 200;
/// Longest time from one link to the next, and for all that an agent's process does at a time.
const PATIENCE: Duration = Duration::from_secs(60);
/// Handshakes that one process begins at the same time.
const AT_ONCE: usize = 32;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |index: usize, default: u64| arguments.get(index).map_or(default, |text| text.parse().unwrap());
    match arguments.first().map(String::as_str) {
        Some("agents") => agents(number(1, 0)).await,
        Some(_) => controller(number(0, 0), Duration::from_secs(number(1, 65)), number(2, 1024)).await,
        None => println!("many_quic LINKS [SECONDS] [WINDOW_KIB]"),
    }
}

/// Ends with its owner.
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
    let _agents: Vec<Agents> = (0..links.div_ceil(A_PROCESS))
        .map(|process| start(&token, A_PROCESS.min(links - process * A_PROCESS)))
        .collect();

    let heard: Arc<[AtomicU64]> = (0..links).map(|_| AtomicU64::new(0)).collect();
    for index in 0..links as usize {
        let link = timeout(PATIENCE, listener.accept())
            .await
            .expect("another link in time");
        tokio::spawn(hear(link, Arc::clone(&heard), index));
    }
    let took = begin.elapsed().as_secs_f64();
    println!("{links} links in {took:.1} s, {:.0}/s", links as f64 / took);
    report("connected", links, before);

    let (cpu, from) = (cpu_seconds(), Instant::now());
    let already: Vec<u64> = heard.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    sleep(watched).await;
    let now: Vec<u64> = heard.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    let due = MESSAGE as u64 * (watched.as_secs() / PERIOD.as_secs());
    let missing = now
        .iter()
        .zip(&already)
        .filter(|(now, already)| **now < **already + due)
        .count();
    report("after a while", links, before);
    println!(
        "{missing} links were not heard {} times in {} s; {:.2} cores; {:?}",
        due / MESSAGE as u64,
        watched.as_secs(),
        (cpu_seconds() - cpu) / from.elapsed().as_secs_f64(),
        listener.counters()
    );
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

/// Counts bytes: a message is heard when all of it is.
async fn hear(mut link: Link, heard: Arc<[AtomicU64]>, index: usize) {
    let mut buffer = [0; 64];
    while let Ok(count @ 1..) = link.reader.read(&mut buffer).await {
        heard[index].fetch_add(count as u64, Ordering::Relaxed);
    }
}

/// Ends when all links have: the controller is gone.
async fn agents(links: u64) {
    let token = Token::read(&Source::Stdin).unwrap();
    let dialer = Arc::new(Dialer::new(&token, ENGINE).unwrap());
    let at_once = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = JoinSet::new();
    for index in 0..links {
        let place = Arc::clone(&at_once).acquire_owned().await.unwrap();
        let dialer = Arc::clone(&dialer);
        tasks.spawn(async move {
            let found = dialer.dial(PATIENCE).await;
            drop(place);
            let mut link = match found {
                Ok(link) => link,
                Err(error) => return println!("{error}"),
            };
            sleep(PERIOD.mul_f64(index as f64 / links as f64)).await;
            while link.writer.write_all(&[b'x'; MESSAGE]).await.is_ok() {
                sleep(PERIOD).await;
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

/// A line of `proc_pid_status(5)`, KiB.
fn memory_kib(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// User and system time, fields 14 and 15 of `proc_pid_stat(5)`, in the 100 ticks a second of Linux.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
    fields
        .skip(11)
        .take(2)
        .map(|ticks| ticks.parse::<f64>().unwrap() / 100.0)
        .sum()
}
