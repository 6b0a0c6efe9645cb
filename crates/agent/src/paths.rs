//! Measures network paths from this host: the round trip of TCP handshakes, and the throughput of
//! one TCP connection in each direction.
//!
//! Sent bytes count when the receiver has acknowledged them. Bytes that a program has written are
//! no measure: the send buffer holds seconds of a slow path.
//!
//! Rejected: four connections at the same time. Bytes that arrive after a lost one count only when
//! it was sent again. At 20 Mbit/s with a short queue, four connections, each with its own losses,
//! spread from 16.6 to 20.4 Mbit/s, and one connection from 19.1 to 19.2 Mbit/s.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_drive::look_up;
use plimsoll_link::{Line, ToController};
use plimsoll_model::{PathReport, PathSpec, RttReport, TransferSpec};
use plimsoll_wire::sink;

/// Maximum time for a connection, and for all handshakes of a path together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of bytes per system call.
const BLOCK: usize = 64 * 1024;
/// System calls between two samples.
const CALLS: usize = 16;
/// Pause when the connection waits for the network.
const PAUSE: Duration = Duration::from_millis(1);
/// Duration of a transfer in round trips, within the limits of the request. A connection needs
/// about ten round trips to reach the rate of the path; only the second half counts.
const ROUND_TRIPS: u32 = 20;

/// Direction of a transfer, from this host.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Send,
    Receive,
}

/// Measures in a separate thread, one path after the other, and sends the results.
pub(crate) fn measure(paths: Vec<PathSpec>, line: Line) {
    let work = move || {
        let reports = paths.iter().map(measure_path).collect();
        let _ = line.send(&ToController::Paths { paths: reports });
    };
    let _ = thread::Builder::new().name("paths".into()).spawn(work);
}

fn measure_path(path: &PathSpec) -> PathReport {
    let mut report = PathReport {
        to: path.to.clone(),
        ..PathReport::default()
    };
    if let Err(error) = fill(&mut report, path) {
        report.error = Some(format!("{}: {error}", path.address));
    }
    report
}

fn fill(report: &mut PathReport, path: &PathSpec) -> io::Result<()> {
    let address = resolve(&path.address)?;
    let trip = round_trips(address, path.handshakes)?;
    report.rtt_ns = Some(trip);
    if let Some(spec) = &path.transfer {
        let trip = Duration::from_nanos(trip.median.unsigned_abs());
        let (least, most) = (
            Duration::from_nanos(spec.min_ns),
            Duration::from_nanos(spec.max_ns),
        );
        let span = (trip * ROUND_TRIPS).max(least).min(most);
        report.send_bytes_s = Some(transfer(address, Direction::Send, spec, span)?);
        report.receive_bytes_s = Some(transfer(address, Direction::Receive, spec, span)?);
    }
    Ok(())
}

/// The first address of "HOST:PORT" or "[ADDRESS]:PORT".
fn resolve(text: &str) -> io::Result<SocketAddr> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "expected HOST:PORT");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse().map_err(|_| wrong())?;
    let addresses = look_up(host.trim_start_matches('[').trim_end_matches(']')).map_err(io::Error::other)?;
    let first = addresses.first().ok_or_else(wrong)?;
    Ok(SocketAddr::new(*first, port))
}

/// Minimum and median of the times of `count` handshakes. A port on which no process listens
/// answers after one round trip as well.
fn round_trips(address: SocketAddr, count: u32) -> io::Result<RttReport> {
    let (began, mut trips) = (Instant::now(), Vec::new());
    while trips.is_empty() || (trips.len() < count as usize && began.elapsed() < CONNECT_TIMEOUT) {
        let since = Instant::now();
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error),
        }
        trips.push(i64::try_from(since.elapsed().as_nanos()).unwrap_or(i64::MAX));
    }
    trips.sort_unstable();
    Ok(RttReport {
        min: trips[0],
        median: trips[trips.len() / 2],
    })
}

/// Bytes/s over the second half of a transfer of `span`, or of the time until its maximum number of
/// bytes.
fn transfer(
    address: SocketAddr,
    direction: Direction,
    spec: &TransferSpec,
    span: Duration,
) -> io::Result<f64> {
    let mut connection = Connection::open(address, direction)?;
    let mut block = noise();
    let (since, mut samples) = (Instant::now(), vec![(0.0, 0)]);
    while since.elapsed() < span && connection.bytes < spec.max_bytes {
        let moved = connection.step(direction, &mut block)?;
        samples.push((since.elapsed().as_secs_f64(), connection.arrived(direction)?));
        if !moved {
            thread::sleep(PAUSE);
        }
    }
    second_half(&samples).ok_or_else(|| io::Error::new(io::ErrorKind::TimedOut, "no data arrived"))
}

/// The rate of a count over the second half of its time; none if it did not grow. Without a sample
/// in the second half, it begins at the last one before: a host that is busy may read the whole
/// transfer at once. `samples`: times (s, ascending) and counts.
fn second_half(samples: &[(f64, u64)]) -> Option<f64> {
    let (&(end, total), earlier) = samples.split_last()?;
    let late = earlier.iter().find(|(at, _)| *at >= end / 2.0);
    let &(begin, before) = late.or(earlier.last())?;
    (end > begin && total > before).then(|| (total - before) as f64 / (end - begin))
}

/// Pseudo-random bytes: a tunnel that compresses would make others look fast.
fn noise() -> Vec<u8> {
    let mut state = 1_u64;
    (0..BLOCK)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect()
}

struct Connection {
    stream: TcpStream,
    /// Bytes written or read.
    bytes: u64,
}

impl Connection {
    fn open(address: SocketAddr, direction: Direction) -> io::Result<Self> {
        let mut stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
        // Closing drops what is still queued: it would disturb the next measurement.
        let linger = libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        // SAFETY: the descriptor is open, and `linger` is valid for the call.
        let answer = unsafe {
            libc::setsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_LINGER,
                (&raw const linger).cast(),
                size_of::<libc::linger>() as libc::socklen_t,
            )
        };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
        stream.write_all(&[match direction {
            Direction::Send => sink::TAKES,
            Direction::Receive => sink::SENDS,
        }])?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, bytes: 0 })
    }

    /// Writes or reads until the connection waits for the network; returns whether any byte moved.
    fn step(&mut self, direction: Direction, block: &mut [u8]) -> io::Result<bool> {
        let before = self.bytes;
        for _ in 0..CALLS {
            let moved = match direction {
                Direction::Send => self.stream.write(block),
                Direction::Receive => self.stream.read(block),
            };
            match moved {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.bytes += count as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.bytes > before)
    }

    /// Bytes that have arrived at the receiver.
    fn arrived(&self, direction: Direction) -> io::Result<u64> {
        if direction == Direction::Receive {
            return Ok(self.bytes);
        }
        let mut queued: libc::c_int = 0;
        // SAFETY: the descriptor is open, and `queued` is valid and writable for the call.
        if unsafe { libc::ioctl(self.stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut queued) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(self.bytes.saturating_sub(queued.unsigned_abs().into()))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A sink, as `plimsoll_services::sink`, for a number of connections.
    fn serve(connections: usize) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            for stream in listener.incoming().take(connections) {
                let mut stream = stream.unwrap();
                thread::spawn(move || {
                    let mut first = [0];
                    if !matches!(stream.read(&mut first), Ok(1)) {
                    } else if first[0] == sink::SENDS {
                        while stream.write_all(&noise()).is_ok() {}
                    } else {
                        let _ = io::copy(&mut stream, &mut io::sink());
                    }
                });
            }
        });
        address
    }

    #[test]
    fn round_trip_and_both_directions_are_measured() {
        let transfer = TransferSpec {
            min_ns: 50_000_000,
            max_ns: 50_000_000,
            max_bytes: 1 << 40,
        };
        let path = PathSpec {
            to: "lab".into(),
            address: serve(2 + 3),
            handshakes: 3,
            transfer: Some(transfer),
        };
        let report = measure_path(&path);
        assert_eq!((report.to.as_str(), &report.error), ("lab", &None));
        let trip = report.rtt_ns.unwrap();
        assert!(0 < trip.min && trip.min <= trip.median);
        assert!(report.send_bytes_s.unwrap() > 0.0 && report.receive_bytes_s.unwrap() > 0.0);
    }

    #[test]
    fn a_transfer_ends_at_its_number_of_bytes() {
        let spec = TransferSpec {
            min_ns: 0,
            max_ns: u64::MAX,
            max_bytes: 1 << 20,
        };
        let hour = Duration::from_hours(1);
        let address = resolve(&serve(1)).unwrap();
        assert!(transfer(address, Direction::Receive, &spec, hour).unwrap() > 0.0);
    }

    #[test]
    fn a_closed_port_has_a_round_trip_and_no_throughput() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let path = PathSpec {
            to: "web".into(),
            address: address.clone(),
            handshakes: 3,
            transfer: Some(TransferSpec::default()),
        };
        let report = measure_path(&path);
        assert!(report.rtt_ns.is_some() && report.send_bytes_s.is_none());
        assert!(report.error.unwrap().starts_with(&address));
        let unknown = PathSpec {
            address: "nowhere.invalid:80".into(),
            ..path
        };
        assert!(measure_path(&unknown).error.is_some());
    }

    #[test]
    fn the_first_half_of_a_transfer_does_not_count() {
        let samples = [(0.0, 0), (0.25, 10), (0.5, 100), (0.75, 200), (1.0, 350)];
        assert_eq!(second_half(&samples), Some(500.0));
        assert_eq!(second_half(&[(0.0, 0), (1.0, 0)]), None);
    }

    #[test]
    fn a_transfer_that_is_read_at_once_has_a_rate() {
        assert_eq!(second_half(&[(0.0, 0), (0.5, 100)]), Some(200.0));
        assert_eq!(second_half(&[(0.0, 0), (0.25, 0), (0.75, 100)]), Some(200.0));
        assert_eq!(second_half(&[(0.0, 0)]), None);
        assert_eq!(second_half(&[]), None);
    }
}
