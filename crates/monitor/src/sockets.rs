//! What the list of TCP sockets states: the accept queues of the services, the sockets by state,
//! and the local ports in use.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use nix::time::ClockId;

use crate::diag::{LISTEN, STATES, Socket, SocketDiag, TIME_WAIT};
use crate::parse::net::local_ports;
use crate::rows::Rows;

/// Share of the time that may be spent on the list of all sockets.
const BUDGET: f64 = 0.000_2;
/// The same with more than MANY sockets: the list is then long, and its result important.
const BUDGET_IF_MANY: f64 = 0.005;
/// A tenth of the local ports of a host with the usual range.
const MANY: f64 = 2800.0;
/// Maximum number of connections in TIME-WAIT toward one address and port that is not that of a
/// server. Both ports of a data connection are chosen at random: 14,000 connections have about one
/// for each remote port, and hardly more than ten.
const MAX_SHARED: usize = 16;
/// Maximum number of descriptors of a process that are searched for a listening socket. A server
/// opens it before its connections.
const MAX_DESCRIPTORS: usize = 2048;

/// The sockets of this host.
#[derive(Debug)]
pub(crate) struct Sockets {
    /// None: the kernel does not provide the list.
    diag: Option<SocketDiag>,
    /// Of each listening socket, by its inode.
    listeners: HashMap<u32, Listener>,
    roots: Vec<u32>,
    /// CPU time that may be spent on the list of all sockets, s.
    credit_s: f64,
    is_first: bool,
}

#[derive(Debug, Clone)]
struct Listener {
    /// None: no process of the experiment has it.
    component: Option<Arc<str>>,
    drops: u32,
}

/// The members of a process tree.
pub(crate) struct Members<'a> {
    pub(crate) component: &'a Arc<str>,
    pub(crate) root: u32,
    pub(crate) pids: Vec<u32>,
}

/// The accept queues of one port of one component.
#[derive(Debug, Default, PartialEq, Eq)]
struct AcceptQueue {
    length: u32,
    backlog: u32,
    drops: u32,
}

impl Sockets {
    pub(crate) fn new() -> Self {
        Self {
            diag: SocketDiag::open().ok(),
            listeners: HashMap::new(),
            roots: Vec::new(),
            credit_s: BUDGET,
            is_first: true,
        }
    }

    /// Appends the accept queues of `trees`, and, within a budget, what all sockets state. The
    /// dropped requests are those since the previous reading, `seconds` ago.
    pub(crate) fn sample(
        &mut self,
        proc: &Path,
        trees: &[Members<'_>],
        seconds: Option<f64>,
        rows: &mut Rows,
    ) {
        if !trees.is_empty() {
            self.accept_queues(proc, trees, rows);
        }
        self.all(proc, seconds, rows);
    }

    fn accept_queues(&mut self, proc: &Path, trees: &[Members<'_>], rows: &mut Rows) {
        let Some(diag) = &mut self.diag else { return };
        let mut found = Vec::new();
        if diag.dump(1 << LISTEN, |socket| found.push(socket)).is_err() {
            self.diag = None;
            return;
        }
        self.find_owners(proc, trees, &found);
        let mut queues: HashMap<(Arc<str>, u16), AcceptQueue> = HashMap::new();
        for socket in &found {
            let Some(known) = self.listeners.get_mut(&socket.inode) else {
                continue;
            };
            let drops = socket
                .drops
                .wrapping_sub(std::mem::replace(&mut known.drops, socket.drops));
            let Some(component) = &known.component else {
                continue;
            };
            // Workers of a server may each have a socket of the same port (SO_REUSEPORT).
            let queue = queues.entry((component.clone(), socket.local_port)).or_default();
            queue.length += socket.queue;
            queue.backlog += socket.backlog;
            queue.drops += drops;
        }
        for ((component, port), queue) in queues {
            let part: Arc<str> = port.to_string().into();
            let rows = rows.of(&component);
            rows.push_part("listen.queue", &part, f64::from(queue.length));
            rows.push_part("listen.backlog", &part, f64::from(queue.backlog));
            if !self.is_first {
                rows.push_part("listen.drops", &part, f64::from(queue.drops));
            }
        }
        self.is_first = false;
    }

    /// Determines the component of each listening socket that is new. A search reads the
    /// descriptors of all members.
    fn find_owners(&mut self, proc: &Path, trees: &[Members<'_>], found: &[Socket]) {
        let roots: Vec<u32> = trees.iter().map(|tree| tree.root).collect();
        // A tree that was found later may have a socket that was known before.
        let is_changed = std::mem::replace(&mut self.roots, roots) != self.roots;
        let inodes: HashSet<u32> = found.iter().map(|socket| socket.inode).collect();
        self.listeners.retain(|inode, _| inodes.contains(inode));
        let mut new = HashSet::new();
        for socket in found {
            // The counter of a socket that was opened since the previous reading began at 0.
            let drops = if self.is_first { socket.drops } else { 0 };
            let is_known = self.listeners.contains_key(&socket.inode);
            let known = self.listeners.entry(socket.inode).or_insert(Listener {
                component: None,
                drops,
            });
            if !is_known || (is_changed && known.component.is_none()) {
                new.insert(socket.inode);
            }
        }
        if new.is_empty() {
            return;
        }
        for tree in trees {
            for pid in &tree.pids {
                for inode in sockets_of(&proc.join(format!("{pid}/fd"))) {
                    if let (true, Some(known)) = (new.remove(&inode), self.listeners.get_mut(&inode)) {
                        known.component = Some(tree.component.clone());
                    }
                }
            }
        }
    }

    /// Appends the number of sockets by state, and the share of the local ports that is in use
    /// toward one address, if the budget of the `seconds` since the previous call allows it.
    fn all(&mut self, proc: &Path, seconds: Option<f64>, rows: &mut Rows) {
        let sockets = rows
            .0
            .iter()
            .rev()
            .find(|row| row.metric == "sockets" && row.part.is_empty());
        let has_many = sockets.is_some_and(|row| row.value > MANY);
        let budget = if has_many { BUDGET_IF_MANY } else { BUDGET };
        self.credit_s = (self.credit_s + budget * seconds.unwrap_or(0.0)).min(budget);
        if self.credit_s <= 0.0 {
            return;
        }
        let Some(diag) = &mut self.diag else { return };
        let read = |name: &str| fs::read_to_string(proc.join(name)).unwrap_or_default();
        let Some((first, last)) = local_ports(&read("sys/net/ipv4/ip_local_port_range")) else {
            return;
        };
        let reuse = read("sys/net/ipv4/tcp_tw_reuse");
        let begin = cpu_time_s();
        let mut census = Census::new(first..=last, reuse.trim());
        let is_complete = diag.dump(!(1 << LISTEN), |socket| census.add(&socket)).is_ok();
        self.credit_s -= cpu_time_s() - begin;
        if is_complete {
            census.push(f64::from(last - first) + 1.0, rows);
        } else {
            self.diag = None;
        }
    }
}

/// CPU time of this thread, s. The time in which it waited for a core is no cost.
fn cpu_time_s() -> f64 {
    ClockId::CLOCK_THREAD_CPUTIME_ID
        .now()
        .map_or(0.0, |time| std::time::Duration::from(time).as_secs_f64())
}

/// The inodes of the sockets in a directory of descriptors. Empty without the right to read it.
fn sockets_of(directory: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let links = entries
        .flatten()
        .take(MAX_DESCRIPTORS)
        .filter_map(|entry| fs::read_link(entry.path()).ok());
    links
        .filter_map(|link| {
            link.to_str()?
                .strip_prefix("socket:[")?
                .strip_suffix(']')?
                .parse()
                .ok()
        })
        .collect()
}

/// Counts over all sockets.
struct Census {
    local_ports: std::ops::RangeInclusive<u16>,
    /// `tcp_tw_reuse`: 1: a new connection may use the port of a connection in TIME-WAIT; 2: only
    /// on loopback.
    reuse: String,
    states: [u64; 256],
    /// Connections from a local port of the range, by local address and remote address and port.
    /// Each of them has another local port.
    used: HashMap<([u32; 4], [u32; 4], u16), u64>,
    /// The local ports of the range with a connection in TIME-WAIT, by remote address and port. At
    /// most `MAX_SHARED` + 1 are kept.
    waiting: HashMap<([u32; 4], u16), Vec<u16>>,
}

impl Census {
    fn new(local_ports: std::ops::RangeInclusive<u16>, reuse: &str) -> Self {
        Self {
            local_ports,
            reuse: reuse.to_owned(),
            states: [0; 256],
            used: HashMap::new(),
            waiting: HashMap::new(),
        }
    }

    fn add(&mut self, socket: &Socket) {
        self.states[usize::from(socket.state)] += 1;
        let is_free = socket.state == TIME_WAIT
            && (self.reuse == "1" || self.reuse == "2" && is_loopback(socket.remote));
        if self.local_ports.contains(&socket.local_port) && !is_free {
            *self
                .used
                .entry((socket.local, socket.remote, socket.remote_port))
                .or_default() += 1;
        }
        if socket.state == TIME_WAIT && self.local_ports.contains(&socket.local_port) {
            let ports = self
                .waiting
                .entry((socket.remote, socket.remote_port))
                .or_default();
            if ports.len() <= MAX_SHARED {
                ports.push(socket.local_port);
            }
        }
    }

    /// Number of ports that ended connections occupy and that had a listening socket for one
    /// connection each. The ports of clients are left out: they have the remote address and port of
    /// a server in common. Connections of a server have one local port.
    fn waiting_ports(&self) -> usize {
        let groups = self.waiting.values().filter(|ports| ports.len() <= MAX_SHARED);
        let ports: HashSet<u16> = groups.flatten().copied().collect();
        ports.len()
    }

    fn push(&self, ports: f64, rows: &mut Rows) {
        let mut numbers: HashMap<&str, u64> = HashMap::new();
        for (state, name) in STATES {
            *numbers.entry(name).or_default() += self.states[usize::from(state)];
        }
        let rows = rows.of(&"host".into());
        for (name, number) in numbers {
            if number > 0 {
                rows.push_part("sockets", &name.into(), number as f64);
            }
        }
        let most = self.used.values().copied().max().unwrap_or(0);
        rows.push("ports.used", most as f64 / ports);
        rows.push("ports.waiting", self.waiting_ports() as f64 / ports);
    }
}

/// Whether an address is 127.0.0.0/8, also in the form of IPv6, or `::1`.
fn is_loopback(address: [u32; 4]) -> bool {
    let words = address.map(u32::from_be);
    let is_v4 = |word: u32| word >> 24 == 127;
    match words {
        [word, 0, 0, 0] | [0, 0, 0xffff, word] => is_v4(word),
        _ => words == [0, 0, 0, 1],
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::*;

    fn connection(state: u8, local_port: u16, remote: Ipv4Addr) -> Socket {
        Socket {
            state,
            local_port,
            remote_port: 80,
            local: [1, 0, 0, 0],
            remote: [u32::from(remote).to_be(), 0, 0, 0],
            queue: 0,
            backlog: 0,
            inode: 0,
            drops: 0,
        }
    }

    fn values(rows: &Rows, metric: &str, part: &str) -> Option<f64> {
        let mut rows = rows.0.iter();
        rows.find(|row| row.metric == metric && &*row.part == part)
            .map(|row| row.value)
    }

    #[test]
    fn ports_are_counted_per_remote_address_and_reusable_ones_are_free() {
        let (far, loopback) = (Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::LOCALHOST);
        let used = |reuse: &str| {
            let mut census = Census::new(1000..=1099, reuse);
            for port in 1000..1040 {
                census.add(&connection(TIME_WAIT, port, far));
                census.add(&connection(TIME_WAIT, port, loopback));
                census.add(&connection(1, port + 20, loopback));
            }
            census.add(&connection(1, 999, far));
            let mut rows = Rows::new(0, "host".into());
            census.push(100.0, &mut rows);
            assert_eq!(values(&rows, "sockets", "established"), Some(41.0));
            values(&rows, "ports.used", "")
        };
        assert_eq!([used("0"), used("2"), used("1")], [0.8, 0.4, 0.4].map(Some));
        let mapped = [0, 0, 0xffff_u32.to_be(), u32::from(loopback).to_be()];
        assert!(is_loopback(mapped) && is_loopback([0, 0, 0, 1_u32.to_be()]) && !is_loopback([0; 4]));
    }

    #[test]
    fn ports_of_ended_data_connections_wait() {
        let far = Ipv4Addr::new(10, 0, 0, 2);
        let waiting = |ports: &dyn Fn(u16) -> (u16, u16), state: u8| {
            let mut census = Census::new(1000..=1099, "2");
            for number in 0..50 {
                let (local_port, remote_port) = ports(number);
                census.add(&Socket {
                    remote_port,
                    ..connection(state, local_port, far)
                });
            }
            let mut rows = Rows::new(0, "host".into());
            census.push(100.0, &mut rows);
            values(&rows, "ports.waiting", "")
        };
        let of_data = |number| (1000 + number, 40_000 + number);
        assert_eq!(waiting(&of_data, TIME_WAIT), Some(0.5));
        assert_eq!(waiting(&of_data, 1), Some(0.0), "established");
        let of_same_client = |number| (1000 + number, 40_000 + number / 10);
        assert_eq!(waiting(&of_same_client, TIME_WAIT), Some(0.5));
        assert_eq!(
            waiting(&|number| (1000 + number, 80), TIME_WAIT),
            Some(0.0),
            "of a client"
        );
        assert_eq!(
            waiting(&|number| (1000, 40_000 + number), TIME_WAIT),
            Some(0.01),
            "of a server"
        );
        assert_eq!(
            waiting(&|number| (2000 + number, 40_000 + number), TIME_WAIT),
            Some(0.0)
        );
    }

    #[test]
    fn the_accept_queue_of_a_service_contains_what_it_does_not_accept() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let component: Arc<str> = "service:web".into();
        let members = [Members {
            component: &component,
            root: std::process::id(),
            pids: vec![std::process::id()],
        }];
        let mut sockets = Sockets::new();
        let mut sample = |seconds| {
            let mut rows = Rows::new(0, "host".into());
            sockets.sample(Path::new("/proc"), &members, seconds, &mut rows);
            let values =
                ["listen.queue", "listen.drops"].map(|metric| values(&rows, metric, &port.to_string()));
            (values, rows)
        };
        assert_eq!(sample(None).0, [Some(0.0), None]);
        let clients = [(); 2].map(|()| TcpStream::connect(("127.0.0.1", port)).unwrap());
        let (of_service, rows) = sample(Some(1.0));
        assert_eq!(of_service, [Some(2.0), Some(0.0)]);
        assert!(values(&rows, "sockets", "established").is_none_or(|number| number >= 4.0));
        drop(clients);
    }
}
