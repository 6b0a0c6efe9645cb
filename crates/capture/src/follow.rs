//! Runs a program under strace, or attaches to a process. The log is imported while it is written.

use std::fs::File;
use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use plimsoll_trace::header::{Calibration, FORMAT, Footer, Header, ONE_CORE, Recorder};
use plimsoll_trace::import::Importer;

use crate::error::{CaptureError, system};
use crate::fifo::Fifo;
use crate::host::{exit_status, read_link};
use crate::request::RecordRequest;
use crate::strace::Strace;
use crate::{attached, calibrate, output};

/// The interval at which the recorded events are written to disk.
const FLUSH: Duration = Duration::from_secs(2);

/// Records a program or processes with strace.
pub(crate) fn record(
    request: &RecordRequest,
    strace: &Strace,
    listen: impl FnOnce() -> io::Result<Receiver<i32>>,
) -> Result<Footer, CaptureError> {
    let calibration = if request.calibrated {
        let measured = calibrate::strace(strace, request.spin);
        Some(measured.map_err(|error| CaptureError::Calibration(Box::new(error)))?)
    } else {
        None
    };
    // From here on the program has the terminal. A signal that ends it must not end this process
    // before its last calls are written.
    let signals = listen().map_err(system("cannot listen to signals"))?;
    let footer = output::visibly(&request.output, |file| {
        let mut importer = Importer::new(file, &header(request, strace, calibration))?;
        importer.look_up(read_link);
        for pid in &request.pids {
            attached::add_process(importer.kernel(), *pid);
        }
        let since = Instant::now();
        let mut recording = StraceRecording::start(request, strace)?;
        recording.follow(&mut importer, request, &signals)?;
        if !request.pids.is_empty() {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            importer.ended_at(now.map_or(0, |since| since.as_nanos() as i64));
        }
        let ended = recording.child.wait().map_err(system("waiting for strace"))?;
        let elapsed = since.elapsed().as_nanos() as u64;
        let status = if request.pids.is_empty() {
            Some(exit_status(ended))
        } else {
            None
        };
        let (file, footer) = importer.finish(status, Some(elapsed))?;
        if footer.events == 0 {
            return Err(CaptureError::NothingTraced(ended));
        }
        Ok((file, footer))
    })?;
    if request.calibrated {
        let after = calibrate::strace(strace, request.spin);
        calibrate::calibrate_again(&request.output, after.ok())?;
    }
    Ok(footer)
}

fn header(request: &RecordRequest, strace: &Strace, calibration: Option<Calibration>) -> Header {
    let options = strace.options(!request.pids.is_empty());
    let options = options.iter().map(|word| word.to_string_lossy().into_owned());
    // Not an option of strace, but the traced threads used one core only.
    let one_core = request.one_core.then(|| ONE_CORE.to_owned());
    let read_fact = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
        text.trim().to_owned()
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Header {
        format: FORMAT.into(),
        recorder: Recorder::Strace,
        recorder_version: strace.version.clone(),
        options: options.chain(one_core).collect(),
        command: request.words(),
        attached: !request.pids.is_empty(),
        host: vec![
            read_fact("hostname"),
            read_fact("osrelease"),
            std::env::consts::ARCH.into(),
        ],
        zero_unix_ns: now.ok().map(|since| since.as_nanos() as i64),
        resolution_ns: 1_000,
        has_durations: true,
        calibration,
    }
}

struct StraceRecording {
    child: Child,
    fifo: Fifo,
}

impl StraceRecording {
    fn start(request: &RecordRequest, strace: &Strace) -> Result<Self, CaptureError> {
        let fifo = Fifo::new().map_err(system("creating a pipe for strace"))?;
        let mut command: Command = strace.command(fifo.path().as_os_str(), !request.pids.is_empty());
        for pid in &request.pids {
            command.arg("-p").arg(pid.to_string());
        }
        if !request.command.is_empty() {
            command.arg("--").args(&request.command);
        }
        let child = strace.start(&mut command)?;
        Ok(Self { child, fifo })
    }

    /// Imports the output of strace until it ends.
    fn follow(
        &mut self,
        importer: &mut Importer<File>,
        request: &RecordRequest,
        signals: &Receiver<i32>,
    ) -> Result<(), CaptureError> {
        let since = Instant::now();
        let mut flushed = Instant::now();
        let mut has_interrupted = false;
        let mut pending: Vec<u8> = Vec::new();
        let mut piece = vec![0; 256 * 1024];
        loop {
            let read = self
                .fifo
                .read(&mut self.child, &mut piece, Duration::from_millis(100));
            match read.map_err(system("reading the output of strace"))? {
                Some(0) => break,
                Some(count) => {
                    pending.extend_from_slice(&piece[..count]);
                    let end = pending
                        .iter()
                        .rposition(|&byte| byte == b'\n')
                        .map_or(0, |end| end + 1);
                    for line in pending[..end]
                        .split(|&byte| byte == b'\n')
                        .filter(|line| !line.is_empty())
                    {
                        importer.line(line, 1)?;
                    }
                    pending.drain(..end);
                }
                None => {}
            }
            if flushed.elapsed() > FLUSH {
                importer.flush()?;
                flushed = Instant::now();
            }
            let is_over = request
                .seconds
                .is_some_and(|seconds| since.elapsed().as_secs_f64() > seconds);
            // Ctrl-C also reaches strace and the program directly. An attached program must not be
            // ended by it.
            let is_interrupted = signals.try_recv().is_ok();
            if (is_over || is_interrupted) && !has_interrupted {
                has_interrupted = true;
                self.interrupt();
            }
        }
        if !pending.is_empty() {
            importer.line(&pending, 1)?;
            importer.mark_cut();
        }
        Ok(())
    }

    /// Interrupts strace: it detaches from attached processes, or passes the signal on to the
    /// program that it started.
    fn interrupt(&self) {
        // SAFETY: a child of this process for which it has not waited yet.
        unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGINT) };
    }
}
