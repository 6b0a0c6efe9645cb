//! Counters of the network: interfaces, lost packets, events of TCP, numbers of sockets.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::parse::net::{self, Interface, TcpEvents};
use crate::proc_files::ProcFiles;
use crate::rows::Rows;

/// The previous readings of the counters.
#[derive(Debug, Default)]
pub(crate) struct Network {
    interfaces: BTreeMap<String, Interface>,
    retransmits: Option<u64>,
    events: Option<TcpEvents>,
    softnet_drops: Option<u64>,
    files: ProcFiles,
}

impl Network {
    /// Appends a reading to `rows`, with rates and increases if there is a previous reading,
    /// `seconds` ago.
    pub(crate) fn sample(&mut self, proc: &Path, seconds: Option<f64>, rows: &mut Rows) {
        let mut files = std::mem::take(&mut self.files);
        let mut read = |name: &'static str| files.read(proc, name);
        if let Some(text) = read("net/dev") {
            self.interfaces(&text, seconds, rows);
        }
        let retransmits = read("net/snmp").as_deref().and_then(net::retransmits);
        if let (Some(now), Some(then), Some(seconds)) = (retransmits, self.retransmits, seconds) {
            rows.push("net.retransmits", now.saturating_sub(then) as f64 / seconds);
        }
        self.retransmits = retransmits;
        let drops = read("net/softnet_stat").as_deref().and_then(net::softnet_drops);
        push_increase("net.softnet_drops", drops, self.softnet_drops, rows);
        self.softnet_drops = drops;
        let events = read("net/netstat").as_deref().and_then(net::tcp_events);
        if let (Some(now), Some(then)) = (&events, &self.events) {
            for (metric, now, then) in [
                (
                    "tcp.listen_overflows",
                    now.listen_overflows,
                    then.listen_overflows,
                ),
                ("tcp.listen_drops", now.listen_drops, then.listen_drops),
                (
                    "tcp.request_queue_drops",
                    now.request_queue_drops,
                    then.request_queue_drops,
                ),
                ("tcp.syn_retransmits", now.syn_retransmits, then.syn_retransmits),
            ] {
                push_increase(metric, now, then, rows);
            }
        }
        self.events = events;
        let [v4, v6] = ["net/sockstat", "net/sockstat6"].map(|name| read(name).unwrap_or_default());
        if let Some((in_use, waiting)) = net::sockets(&v4, &v6) {
            rows.push("sockets", (in_use + waiting) as f64);
            rows.push_part("sockets", &"time_wait".into(), waiting as f64);
        }
        self.files = files;
    }

    fn interfaces(&mut self, text: &str, seconds: Option<f64>, rows: &mut Rows) {
        for now in net::interfaces(text) {
            let part: Arc<str> = now.name.as_str().into();
            if let (Some(then), Some(seconds)) = (self.interfaces.get(&now.name), seconds) {
                for ([bytes, packets, drops], now, then) in [
                    (
                        ["net.receive", "net.receive_packets", "net.receive_drops"],
                        now.received,
                        then.received,
                    ),
                    (
                        ["net.send", "net.send_packets", "net.send_drops"],
                        now.sent,
                        then.sent,
                    ),
                ] {
                    let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
                    rows.push_part(bytes, &part, rate(now.bytes, then.bytes));
                    if now.packets > 0 {
                        rows.push_part(packets, &part, rate(now.packets, then.packets));
                        rows.push_part(drops, &part, now.drops.saturating_sub(then.drops) as f64);
                    }
                }
            }
            self.interfaces.insert(now.name.clone(), now);
        }
    }
}

/// The number of events since the previous reading.
fn push_increase(metric: &'static str, now: Option<u64>, then: Option<u64>, rows: &mut Rows) {
    if let (Some(now), Some(then)) = (now, then) {
        rows.push(metric, now.saturating_sub(then) as f64);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn events_are_counted_between_two_readings_and_rates_are_per_second() {
        let proc = std::env::temp_dir().join(format!("plimsoll-network-{}", std::process::id()));
        let directory = proc.join("net");
        fs::create_dir_all(&directory).unwrap();
        let put = |overflows: u64, packets: u64, drops: u64| {
            let write = |name: &str, text: String| fs::write(directory.join(name), text).unwrap();
            write(
                "netstat",
                format!("TcpExt: ListenOverflows ListenDrops\nTcpExt: {overflows} 9\n"),
            );
            write("softnet_stat", format!("00 {drops:08x} 00\n00 00000001 00\n"));
            write("dev", format!("eth0: 1000 {packets} 0 {drops} 0 0 0 0 0 0 0 0\n"));
            write(
                "sockstat",
                "TCP: inuse 4 orphan 0 tw 6 alloc 5 mem 1\n".to_owned(),
            );
        };
        let mut network = Network::default();
        put(100, 10, 0);
        let mut rows = Rows::new(0, "host".into());
        network.sample(&proc, None, &mut rows);
        assert!(rows.0.iter().all(|row| row.metric == "sockets"));
        put(134, 50, 16);
        let mut rows = Rows::new(0, "host".into());
        network.sample(&proc, Some(2.0), &mut rows);
        fs::remove_dir_all(&proc).unwrap();
        let value = |metric: &str, part: &str| {
            rows.0
                .iter()
                .find(|row| row.metric == metric && &*row.part == part)
                .map(|row| row.value)
        };
        assert_eq!(value("tcp.listen_overflows", ""), Some(34.0));
        assert_eq!(value("tcp.listen_drops", ""), Some(0.0));
        assert_eq!(value("tcp.syn_retransmits", ""), None);
        assert_eq!(value("net.softnet_drops", ""), Some(16.0));
        assert_eq!(value("net.receive_drops", "eth0"), Some(16.0));
        assert_eq!(value("net.receive_packets", "eth0"), Some(20.0));
        assert_eq!(value("sockets", ""), Some(10.0));
        assert_eq!(value("sockets", "time_wait"), Some(6.0));
    }
}
