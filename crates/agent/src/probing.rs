//! The agent's estimate of the controller's clock: sends probes, records the answers, and converts
//! times.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_clock::packet::PACKET_BYTES;
use plimsoll_clock::schedule::{BURST, INTERVAL_NS, due_ns};
use plimsoll_clock::{Assumptions, Clock, Live, Probe, PushResult, Via};
use plimsoll_link::{ClockReport, Line, Stamps, TimeService, ToController};
use plimsoll_record::SideWriter;
use plimsoll_record::segment::Origin;

use crate::stamped::{GRAIN_NS, StampedSocket};
use crate::udp_probe::{ProbePaths, UdpProbes};

/// How long the last burst of a run waits for its answers.
const BURST_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval at which waiting threads check whether the line is closed.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// State of the probes. It is shared by the main thread of the agent, the present run, and the
/// threads that send probes and receive answers.
pub(crate) struct Probing {
    state: Mutex<State>,
    changed: Condvar,
    clock: Arc<dyn Clock>,
    line: Line,
}

struct State {
    /// The agent has the controller's clock, so no probes are sent. True until the controller has
    /// described its time service.
    same: bool,
    live: Live,
    /// Round trips of all probes, ns.
    rtts: Vec<i64>,
    /// Time at which the last burst began, ns, and the number of the next probe since then.
    burst: i64,
    next: u64,
    /// Number of answers at which the clock is reported to the controller; 0: no report.
    report_at: u64,
    /// Whether probes were sent over UDP at the time of the last report.
    reported_udp: Option<bool>,
    /// Created when the controller has a time service over UDP, and then kept.
    socket: Option<Arc<UdpSocket>>,
    udp: Option<UdpProbes>,
    /// Address of the controller on the agent's link.
    link_address: Option<IpAddr>,
    rows: Option<SideWriter<Probe>>,
    damage: Option<String>,
}

impl Probing {
    /// Starts the thread that sends probes; it ends when `line` is closed.
    pub(crate) fn start(line: Line, clock: Arc<dyn Clock>) -> io::Result<Arc<Self>> {
        let assumptions = Assumptions {
            granularity_ns: GRAIN_NS,
            ..Assumptions::default()
        };
        let probing = Arc::new(Self {
            state: Mutex::new(State {
                same: true,
                live: Live::new(assumptions),
                rtts: Vec::new(),
                burst: 0,
                next: 0,
                report_at: 0,
                reported_udp: None,
                socket: None,
                udp: None,
                link_address: None,
                rows: None,
                damage: None,
            }),
            changed: Condvar::new(),
            clock,
            line,
        });
        let asking = probing.clone();
        std::thread::Builder::new()
            .name("probes".into())
            .spawn(move || asking.ask_periodically())?;
        Ok(probing)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask_periodically(&self) {
        // With a seed per process, the probes of different agents are not synchronised.
        let seed = RandomState::new().hash_one(std::process::id());
        let mut state = self.state();
        while !self.line.is_closed() {
            let now = self.clock.raw_ns();
            let wait = state.until_due(now, seed);
            if !wait.is_zero() {
                // The start of a burst ends the wait.
                let waited = self.changed.wait_timeout(state, wait.min(CHECK_INTERVAL));
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            state.next += 1;
            let paths = match &mut state.udp {
                Some(udp) => udp.ask(|| self.clock.raw_ns()),
                None => ProbePaths::LINK,
            };
            if paths.link {
                self.line.send_probe();
            }
        }
    }

    /// Sets the maximum rate error between the clocks, ppm.
    pub(crate) fn assume(&self, max_rate_error_ppm: f64) {
        self.state().live.assume(Assumptions {
            granularity_ns: GRAIN_NS,
            max_rate_error_ppm,
            ..Assumptions::default()
        });
    }

    /// Sets the time service of the controller and begins a burst.
    pub(crate) fn use_service(self: &Arc<Self>, service: &TimeService) {
        let now = self.clock.raw_ns();
        let udp = service.udp.as_ref().filter(|_| !service.same);
        let mut state = self.state();
        state.udp = udp.and_then(|udp| {
            let socket = self.socket(&mut state)?;
            Some(UdpProbes::new(socket, udp, state.link_address, now))
        });
        state.same = service.same;
        state.report_at = if service.same {
            0
        } else {
            state.rtts.len() as u64 + BURST
        };
        self.begin_burst(state);
    }

    /// The UDP socket, with a thread that receives answers; `None` if the system refuses one of
    /// them.
    fn socket(self: &Arc<Self>, state: &mut State) -> Option<Arc<UdpSocket>> {
        if state.socket.is_none() {
            let mut stamped = StampedSocket::bind(0, self.clock.clone()).ok()?;
            stamped.set_read_timeout(CHECK_INTERVAL).ok()?;
            let (socket, receiving) = (stamped.socket().clone(), self.clone());
            std::thread::Builder::new()
                .name("probes-udp".into())
                .spawn(move || receiving.receive_answers(&mut stamped))
                .ok()?;
            state.socket = Some(socket);
        }
        state.socket.clone()
    }

    fn receive_answers(&self, stamped: &mut StampedSocket) {
        // One byte more than a packet, so that a longer datagram is not accepted.
        let mut bytes = [0; PACKET_BYTES + 1];
        while !self.line.is_closed() {
            match stamped.receive(&mut bytes) {
                Ok(received) => {
                    let mut state = self.state();
                    let datagram = &bytes[..received.bytes];
                    if let Some(probe) = state
                        .udp
                        .as_mut()
                        .and_then(|udp| udp.take(datagram, received.at_ns))
                    {
                        self.add_probe(state, probe);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The network may be down for a while.
                Err(_) => std::thread::sleep(CHECK_INTERVAL / 10),
            }
        }
    }

    /// Sets the address of the controller on a new link: the time service may have the same
    /// address.
    pub(crate) fn set_link_address(&self, link_address: Option<IpAddr>) {
        let mut state = self.state();
        state.link_address = link_address;
        if let Some(udp) = &mut state.udp {
            udp.set_link_address(link_address, self.clock.raw_ns());
        }
    }

    /// Adds an answer that was received over the link.
    pub(crate) fn add_stamps(&self, stamps: Stamps) {
        let probe = Probe {
            sent: stamps.sent,
            heard: stamps.heard,
            answered: stamps.answered,
            received: stamps.received,
            via: Via::Link,
        };
        self.add_probe(self.state(), probe);
    }

    fn add_probe(&self, mut state: MutexGuard<'_, State>, probe: Probe) {
        // A probe that contradicts the others is recorded, but its round trip is not used.
        if state.live.push(&probe) != PushResult::Rejected {
            state
                .rtts
                .push((probe.received - probe.sent) - (probe.answered - probe.heard));
        }
        if let Some(rows) = &mut state.rows
            && let Err(error) = rows.write(&[probe])
        {
            state.damage = Some(error.to_string());
            state.rows = None;
        }
        let report = state.is_report_due().then(|| state.report(self.clock.raw_ns()));
        drop(state);
        self.changed.notify_all();
        if let Some(Some(report)) = report {
            let _ = self.line.send(&ToController::Clock(report));
        }
    }

    fn begin_burst(&self, mut state: MutexGuard<'_, State>) {
        (state.burst, state.next) = (self.clock.raw_ns(), 0);
        drop(state);
        self.changed.notify_all();
    }

    /// Records probes into `directory` from now on, beginning with a burst.
    pub(crate) fn record(&self, directory: &Path, origin: &Origin) {
        let mut state = self.state();
        if !state.same {
            state.rows = Some(SideWriter::new(directory, origin));
            self.begin_burst(state);
        }
    }

    /// Sends a last burst and ends the recording. Returns the names of the segments, and the error
    /// if one occurred.
    pub(crate) fn finish(&self) -> (Vec<String>, Option<String>) {
        let mut state = self.state();
        if state.rows.is_some() {
            let enough = state.rtts.len() as u64 + BURST;
            self.begin_burst(state);
            state = self.state();
            let since = Instant::now();
            while (state.rtts.len() as u64) < enough
                && since.elapsed() < BURST_TIMEOUT
                && state.rows.is_some()
            {
                let left = BURST_TIMEOUT.saturating_sub(since.elapsed());
                state = self
                    .changed
                    .wait_timeout(state, left)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
        }
        let damage = state.damage.take();
        let Some(rows) = state.rows.take() else {
            return (Vec::new(), damage);
        };
        drop(state);
        let (names, sealed) = rows.finish();
        (names, damage.or(sealed.err().map(|error| error.to_string())))
    }

    /// The agent's time at the controller's time `t0_ns`, and its maximum error, ns. Without any
    /// answer it returns the present time with the error `i64::MAX`.
    pub(crate) fn to_agent(&self, t0_ns: i64) -> (i64, i64) {
        let state = self.state();
        if state.same {
            return (t0_ns, 0);
        }
        let now = self.clock.raw_ns();
        let Some(mapped) = state.live.at(now) else {
            return (now, i64::MAX);
        };
        // Between now and then the rate error amounts to nanoseconds.
        (now + (t0_ns - mapped.controller_ns), mapped.bound_ns)
    }
}

impl State {
    /// Time until the next probe is due.
    fn until_due(&mut self, now: i64, seed: u64) -> Duration {
        if self.same {
            return CHECK_INTERVAL;
        }
        let due = self.burst.saturating_add_unsigned(due_ns(self.next, seed));
        let late = now.saturating_sub(due);
        if late > INTERVAL_NS.cast_signed() {
            // This process was stopped. The missed probes are not sent later.
            self.burst = self.burst.saturating_add(late);
        }
        Duration::from_nanos(u64::try_from(-late).unwrap_or(0))
    }

    fn by_udp(&self) -> bool {
        self.udp.as_ref().is_some_and(UdpProbes::is_open)
    }

    /// Whether the clock is to be reported: after the first probes, and when the probes change
    /// between UDP and the link.
    fn is_report_due(&self) -> bool {
        self.rtts.len() as u64 == self.report_at
            || self
                .reported_udp
                .is_some_and(|reported| reported != self.by_udp())
    }

    fn report(&mut self, now: i64) -> Option<ClockReport> {
        let mapped = self.live.at(now)?;
        let mut rtts = self.rtts.clone();
        rtts.sort_unstable();
        self.reported_udp = Some(self.by_udp());
        Some(ClockReport {
            offset_ns: mapped.controller_ns - now,
            bound_ns: mapped.bound_ns,
            rtt_min_ns: *rtts.first()?,
            rtt_median_ns: *rtts.get(rtts.len() / 2)?,
            probes: rtts.len() as u64,
            udp: self.by_udp(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};

    use plimsoll_clock::SystemClock;
    use plimsoll_clock::packet::{ProbeKey, Request};
    use plimsoll_link::{Greeting, LineEvent, LineHandler, LinkError, LinkTimeouts, UdpTime};

    use super::*;

    const KEY: [u8; 32] = [5; 32];
    /// Far longer than any step takes; a step that reaches it does not end.
    const TEST_TIMEOUT: Duration = Duration::from_secs(60);

    /// A time service on this host.
    struct Service {
        port: u16,
        ended: Arc<AtomicBool>,
        answered: Arc<AtomicU64>,
        thread: Option<std::thread::JoinHandle<()>>,
    }

    impl Service {
        fn start(port: u16, key: [u8; 32]) -> Self {
            let mut stamped = StampedSocket::bind(port, Arc::new(SystemClock)).unwrap();
            stamped.set_read_timeout(Duration::from_millis(20)).unwrap();
            let port = stamped.socket().local_addr().unwrap().port();
            let (ended, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
            let (over, count) = (ended.clone(), answered.clone());
            let thread = std::thread::spawn(move || {
                let key = ProbeKey::new(&key);
                let mut bytes = [0; PACKET_BYTES + 1];
                while !over.load(Ordering::Relaxed) {
                    let Ok(received) = stamped.receive(&mut bytes) else {
                        continue;
                    };
                    let Some(request) = Request::decode(&bytes[..received.bytes], &key) else {
                        continue;
                    };
                    count.fetch_add(1, Ordering::Relaxed);
                    let answer = request.answer(received.at_ns, SystemClock.raw_ns());
                    stamped.answer(&answer.encode(&key), &received).unwrap();
                }
            });
            Self {
                port,
                ended,
                answered,
                thread: Some(thread),
            }
        }

        fn answered(&self) -> u64 {
            self.answered.load(Ordering::Relaxed)
        }
    }

    impl Drop for Service {
        fn drop(&mut self) {
            self.ended.store(true, Ordering::Relaxed);
            let _ = self.thread.take().map(std::thread::JoinHandle::join);
        }
    }

    /// Handles answers for the agent, and clock reports for the controller.
    enum Handler {
        Agent(Arc<Probing>),
        Controller(Sender<ClockReport>),
    }

    impl LineHandler for Handler {
        fn handle_greeting(&mut self, _: &Greeting) -> Result<(), LinkError> {
            Ok(())
        }

        async fn handle_event(&mut self, event: LineEvent) -> Result<(), LinkError> {
            match (&*self, event) {
                (Self::Agent(probing), LineEvent::Answered(stamps)) => probing.add_stamps(stamps),
                (Self::Controller(reports), LineEvent::Message(body)) => {
                    if let Ok(ToController::Clock(report)) = serde_json::from_slice(&body) {
                        let _ = reports.send(report);
                    }
                }
                _ => {}
            }
            Ok(())
        }
    }

    /// The probing of an agent with a link to the line of a controller.
    struct LinkedAgent {
        probing: Arc<Probing>,
        reports: Receiver<ClockReport>,
        lines: [Line; 2],
        _runtime: tokio::runtime::Runtime,
    }

    impl LinkedAgent {
        fn start() -> Self {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap();
            let lines = [(); 2].map(|()| Line::new(Arc::new(SystemClock)));
            let probing = Probing::start(lines[0].clone(), Arc::new(SystemClock)).unwrap();
            let (sender, reports) = channel();
            let handlers = [Handler::Agent(probing.clone()), Handler::Controller(sender)];
            let entered = runtime.enter();
            let (near, far) = tokio::net::UnixStream::pair().unwrap();
            for ((line, mut handler), stream) in lines.clone().into_iter().zip(handlers).zip([near, far]) {
                let (reader, writer) = stream.into_split();
                runtime.spawn(async move {
                    let own = Greeting::new("1.2.3");
                    line.converse(
                        reader,
                        writer,
                        &own,
                        &mut handler,
                        LinkTimeouts::without_login(TEST_TIMEOUT),
                    )
                    .await
                });
            }
            let since = Instant::now();
            while lines.iter().any(|line| line.link().is_none()) {
                assert!(since.elapsed() < TEST_TIMEOUT);
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(entered);
            Self {
                probing,
                reports,
                lines,
                _runtime: runtime,
            }
        }

        fn use_service(&self, port: u16) -> ClockReport {
            let udp = UdpTime {
                agent: 1,
                port,
                addresses: vec!["127.0.0.1".parse().unwrap()],
                key: KEY,
            };
            self.probing.use_service(&TimeService {
                same: false,
                udp: Some(udp),
            });
            let report = self.reports.recv_timeout(TEST_TIMEOUT).unwrap();
            // Both ends have the same clock, so the true offset is 0.
            assert!(
                report.bound_ns > 0 && report.offset_ns.abs() <= report.bound_ns,
                "{report:?}"
            );
            report
        }

        fn probes(&self) -> usize {
            self.probing.state().rtts.len()
        }

        fn wait_for(&self, more: usize) {
            let (since, enough) = (Instant::now(), self.probes() + more);
            while self.probes() < enough {
                assert!(since.elapsed() < TEST_TIMEOUT, "no answers");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    impl Drop for LinkedAgent {
        fn drop(&mut self) {
            self.lines.iter().for_each(Line::close);
        }
    }

    #[test]
    fn probes_use_udp_and_change_to_the_link_when_the_service_ends() {
        let service = Service::start(0, KEY);
        let agent = LinkedAgent::start();
        let mut report = agent.use_service(service.port);
        while !report.udp {
            // On a busy machine the first answers may all have arrived over the link.
            report = agent.reports.recv_timeout(TEST_TIMEOUT).unwrap();
        }
        let before = service.answered();
        agent.wait_for(2);
        assert!(service.answered() > before, "the service answered no probe");
        drop(service);
        let report = agent.reports.recv_timeout(TEST_TIMEOUT).unwrap();
        assert!(!report.udp, "{report:?}");
        agent.wait_for(2);
    }

    #[test]
    fn a_service_with_another_key_is_not_used() {
        let service = Service::start(0, [6; 32]);
        let agent = LinkedAgent::start();
        let report = agent.use_service(service.port);
        assert!(!report.udp && report.probes == BURST, "{report:?}");
        agent.wait_for(1);
        assert_eq!(service.answered(), 0);
    }

    #[test]
    fn with_a_closed_port_no_probe_of_the_burst_is_lost() {
        let free = UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let agent = LinkedAgent::start();
        let report = agent.use_service(free);
        assert!(!report.udp && report.probes == BURST, "{report:?}");
    }

    #[test]
    fn invalid_datagrams_on_the_agents_port_stop_no_probe() {
        let service = Service::start(0, KEY);
        let agent = LinkedAgent::start();
        agent.use_service(service.port);
        let own = agent
            .probing
            .state()
            .socket
            .as_ref()
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
                let mut forged = [0; PACKET_BYTES];
                forged[..6].copy_from_slice(b"PLCK\x01\x02");
                while !ended.load(Ordering::Relaxed) {
                    for datagram in [&forged[..], &[0; 1400], &[]] {
                        let _ = stranger.send_to(datagram, ("127.0.0.1", own));
                    }
                }
            });
            let probes = agent.probes();
            let since = Instant::now();
            while agent.probes() < probes + 4 && since.elapsed() < TEST_TIMEOUT {
                std::thread::sleep(Duration::from_millis(5));
            }
            ended.store(true, Ordering::Relaxed);
            assert!(agent.probes() >= probes + 4, "no answers");
        });
        let report = agent.probing.state().report(SystemClock.raw_ns()).unwrap();
        assert!(report.offset_ns.abs() <= report.bound_ns, "{report:?}");
    }
}
