//! `trace record`: runs a program under strace, or attaches to a process. The log is imported while
//! it is written.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::ValueEnum;
use plimsoll_trace::header::{Calibration, FORMAT, Header, ONE_CORE, Recorder};
use plimsoll_trace::import::Importer;

use super::fifo::Fifo;
use super::strace::Strace;
use super::{attached, calibrate, import, output, preload};

/// The interval at which the recorded events are written to disk.
const FLUSH: Duration = Duration::from_secs(2);

/// The recorder of `trace record`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Source {
    /// All calls, at about 35 us each
    Strace,
    /// Calls through libc, at a fraction of a microsecond each
    Preload,
}

/// The arguments of `trace record`.
pub(super) struct RecordRequest {
    pub(super) source: Source,
    pub(super) output: PathBuf,
    /// Whether an existing output is overwritten.
    pub(super) force: bool,
    /// The file for the summary of the recording; stdout without it.
    pub(super) report: Option<PathBuf>,
    pub(super) pids: Vec<u32>,
    pub(super) seconds: Option<f64>,
    pub(super) calibrated: bool,
    /// Whether strace and the program share a core.
    pub(super) one_core: bool,
    pub(super) command: Vec<OsString>,
}

impl RecordRequest {
    /// Program and arguments, as text.
    pub(super) fn words(&self) -> Vec<String> {
        let words = self.command.iter();
        words.map(|word| word.to_string_lossy().into_owned()).collect()
    }
}

pub(super) fn run(request: &RecordRequest) -> anyhow::Result<ExitCode> {
    if request.command.is_empty() == request.pids.is_empty() {
        bail!("pass either a program (after --) or a process to attach to (-p)");
    }
    if !request.force {
        output::check_new(&request.output)?;
    }
    output::check(&request.output, [])?;
    if let Some(program) = request.command.first() {
        check_program(program)?;
    }
    if request.source == Source::Preload {
        if request.one_core {
            bail!("--one-core is valid only with --source strace");
        }
        return preload::run(request);
    }
    for pid in &request.pids {
        if !PathBuf::from(format!("/proc/{pid}")).exists() {
            bail!("-p: there is no process {pid}");
        }
    }
    if request.one_core && !request.pids.is_empty() {
        bail!("--one-core is valid only for a program that is started: a running process keeps its cores");
    }
    let strace = Strace::find(request.one_core)?;
    let calibration = if request.calibrated {
        Some(
            calibrate::strace(&strace)
                .context("measuring the tracing cost (--uncalibrated records without it)")?,
        )
    } else {
        None
    };
    // From here on the program has the terminal. A signal that ends it must not end this process
    // before its last calls are written.
    let signals = crate::signals::listen().context("cannot listen to signals")?;
    let mut ended = None;
    let footer = output::visibly(&request.output, |file| {
        let mut importer = Importer::new(file, &header(request, &strace, calibration))?;
        importer.look_up(read_link);
        for pid in &request.pids {
            attached::add_process(importer.kernel(), *pid);
        }
        let since = Instant::now();
        let mut recording = Recording::start(request, &strace)?;
        recording.follow(&mut importer, request, &signals)?;
        if !request.pids.is_empty() {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            importer.ended_at(now.map_or(0, |since| since.as_nanos() as i64));
        }
        let exit_status = recording.child.wait().context("waiting for strace")?;
        let elapsed = since.elapsed().as_nanos() as u64;
        let status = if request.pids.is_empty() {
            Some(number(exit_status))
        } else {
            None
        };
        ended = status;
        let (file, footer) = importer.finish(status, Some(elapsed))?;
        if footer.events == 0 {
            bail!("nothing was recorded: {}", failure(exit_status));
        }
        Ok((file, footer))
    })?;
    if request.calibrated {
        import::calibrate_again(&request.output, calibrate::strace(&strace).ok())?;
    }
    import::report(&request.output, &footer, request.report.as_deref())?;
    Ok(ended.map_or(ExitCode::SUCCESS, exit_code))
}

/// Refuses a missing program before the calibration.
fn check_program(program: &OsStr) -> anyhow::Result<()> {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let exists = if program.as_bytes().contains(&b'/') {
        Path::new(program).exists()
    } else {
        std::env::split_paths(&search).any(|directory| directory.join(program).is_file())
    };
    if !exists {
        bail!("there is no program {}", Path::new(program).display());
    }
    Ok(())
}

/// Reads the current target of a symbolic link, because strace does not write the contents of
/// buffers.
pub(super) fn read_link(path: &[u8]) -> Option<Vec<u8>> {
    let target = std::fs::read_link(OsStr::from_bytes(path)).ok()?;
    Some(target.into_os_string().into_vec())
}

/// The exit code of the program; after a signal, the code that a shell returns.
pub(super) fn exit_code(status: i32) -> ExitCode {
    let code = if status < 0 { 128 - status } else { status };
    ExitCode::from(code.clamp(0, 255) as u8)
}

fn failure(status: ExitStatus) -> String {
    format!(
        "strace ended with {status}. It needs permission to trace: the same user, and a value of kernel.yama.ptrace_scope that allows it"
    )
}

/// The exit status of a program, or the negative number of the signal that ended it.
pub(super) fn number(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| -status.signal().unwrap_or(0))
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

struct Recording {
    child: Child,
    fifo: Fifo,
}

impl Recording {
    fn start(request: &RecordRequest, strace: &Strace) -> anyhow::Result<Self> {
        let fifo = Fifo::new().context("creating a pipe for strace")?;
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
    ) -> anyhow::Result<()> {
        let since = Instant::now();
        let mut flushed = Instant::now();
        let mut has_interrupted = false;
        let mut pending: Vec<u8> = Vec::new();
        let mut piece = vec![0; 256 * 1024];
        loop {
            let read = self
                .fifo
                .read(&mut self.child, &mut piece, Duration::from_millis(100));
            match read.context("reading the output of strace")? {
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
