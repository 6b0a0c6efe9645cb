//! `exec`: runs a client program, either once per transaction, or as a long-lived program that
//! carries out one transaction for each line on its standard input.
//!
//! Stamps: start before the program is spawned (long-lived: before the request is written to it);
//! connected when a new program has started; first byte at its first output; end when it has ended
//! (long-lived: when its report was read). Payload and items: as the program reports them, or by
//! the setting `bytes`. Wire bytes cannot be measured: 0. Session (long-lived): number of the
//! program, which is started again if it ends.
//!
//! Codes: `exit N`, `signal N`, or the code that the program reports; `not found`, `not
//! executable`; `no report` and `no byte count` (wrong); the code of a timeout states what the
//! tester waited for. A timeout ends the whole process group.
//!
//! Limits: the programs of each tester run in a control group. Such a program is started by fork
//! instead of `posix_spawn`, since it enters the group before it runs. Code `out of memory`: the
//! kernel killed it at its limit.
//!
//! Metrics: `cpu_s`, `max_rss_bytes` (only once per transaction); `program_s`, the time that the
//! program itself measured, or `program_s (estimated)`, the whole time minus the measured cost of
//! starting and reaping a program that does nothing; and the metrics that the program reports.
//!
//! A report is a JSON object on one line: `{"bytes": 0, "items": 0, "ok": true, "code": "",
//! "start_ns": 0, "end_ns": 0, "metrics": {"name": 0.0}}`. Every key is optional. In the mode once
//! per transaction the last report counts.

mod error;
mod limited;
pub(crate) mod program;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use plimsoll_limits::Limits;
use plimsoll_model::{Code, Codes, Outcome};
use plimsoll_schedule::Template;
use regex::bytes::Regex;
use serde::Deserialize;

use self::limited::ProgramGroup;
use self::program::{Program, ProgramExit, ProgramStatus};
use crate::api::DriverInfo;
use crate::driver::{Attempt, BlockingDriver, BlockingTester, Limit, Request, Setup, Waiting};
use crate::setup_error::SetupError;

pub use error::ExecError;

/// Description of the driver.
pub(crate) const INFO: DriverInfo = DriverInfo {
    file_keys: &["files", "command", "env"],
    blocking: true,
    ..DriverInfo::new("exec", "runs any executable, once per transaction or long-lived")
};

/// Maximum number of metrics that are read from one report.
const MAX_METRICS: usize = 64;
/// Number of programs that are started to measure the cost of a start.
const TRIALS: usize = 11;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    PerTransaction,
    LongLived,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    mode: Mode,
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    /// Files that the programs need.
    #[serde(default)]
    files: Vec<PathBuf>,
    /// Limits of the programs of each tester.
    #[serde(default)]
    limits: Limits,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestSettings {
    command: Vec<String>,
    stdin: Option<String>,
    bytes: BytesSettings,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum BytesSettings {
    None,
    Fixed { bytes: u64 },
    Regex { pattern: String },
    Json,
}

enum Bytes {
    None,
    Fixed(u64),
    Regex(Regex),
    Json,
}

/// A program's report of a transaction.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Report {
    bytes: u64,
    items: u64,
    ok: Option<bool>,
    code: String,
    start_ns: Option<i64>,
    end_ns: Option<i64>,
    metrics: BTreeMap<String, f64>,
}

struct Operation {
    command: Vec<Template>,
    stdin: Option<Template>,
    bytes: Bytes,
}

/// The driver.
pub struct Exec {
    mode: Mode,
    env: Vec<(String, Template)>,
    cwd: Option<PathBuf>,
    operations: Vec<Operation>,
    names: Names,
    limits: Limits,
    /// Cost of starting and reaping a program, s; none if it is not known.
    spawn_s: Option<f64>,
}

/// Codes of the names of metrics.
#[derive(Debug, Clone, Copy)]
struct Names {
    cpu: Code,
    rss: Code,
    exact: Code,
    estimated: Code,
}

impl Names {
    fn new(codes: &Codes) -> Self {
        Self {
            cpu: codes.number("cpu_s"),
            rss: codes.number("max_rss_bytes"),
            exact: codes.number("program_s"),
            estimated: codes.number("program_s (estimated)"),
        }
    }
}

impl BlockingDriver for Exec {
    type Tester = Tester;

    fn prepare(setup: &Setup<'_>) -> Result<Self, SetupError> {
        let settings: Settings = setup.settings()?;
        if let Some(directory) = settings.cwd.as_ref().filter(|directory| !directory.is_dir()) {
            return Err(ExecError::NoDirectory(directory.clone()).into());
        }
        if let Some(file) = settings.files.iter().find(|file| !file.is_file()) {
            return Err(ExecError::NoFile(file.clone()).into());
        }
        limited::prove(&settings.limits, settings.cwd.as_deref())?;
        let mut env = Vec::new();
        for (name, text) in &settings.env {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(ExecError::Variable(name.clone()).into());
            }
            env.push((name.clone(), setup.common_template(text)));
        }
        let operations = (0..setup.requests.len())
            .map(|index| operation(setup, index, settings.mode))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            mode: settings.mode,
            env,
            cwd: settings.cwd,
            operations,
            names: Names::new(setup.codes),
            limits: settings.limits,
            spawn_s: spawn_cost(),
        })
    }

    fn tester(self: &Arc<Self>, _: u32) -> Result<Tester, SetupError> {
        Ok(Tester {
            programs: self.operations.iter().map(|_| None).collect(),
            group: ProgramGroup::new(&self.limits)?,
            driver: Arc::clone(self),
            sessions: 0,
        })
    }
}

fn operation(setup: &Setup<'_>, index: usize, mode: Mode) -> Result<Operation, SetupError> {
    let request: RequestSettings = setup.request(index)?;
    if request.command.is_empty() {
        return Err(ExecError::NoCommand.into());
    }
    let bytes = match request.bytes {
        BytesSettings::None => Bytes::None,
        BytesSettings::Fixed { bytes } => Bytes::Fixed(bytes),
        BytesSettings::Json => Bytes::Json,
        BytesSettings::Regex { pattern } => {
            let regex = Regex::new(&pattern).map_err(|source| SetupError::Regex { key: "bytes", source })?;
            if regex.captures_len() < 2 {
                return Err(ExecError::NoGroup(pattern).into());
            }
            Bytes::Regex(regex)
        }
    };
    if mode == Mode::LongLived && request.stdin.is_some() {
        return Err(ExecError::LongLivedInput.into());
    }
    if mode == Mode::LongLived && matches!(bytes, Bytes::Regex(_)) {
        return Err(ExecError::LongLivedPattern.into());
    }
    Ok(Operation {
        command: request
            .command
            .iter()
            .map(|text| setup.template(index, text))
            .collect(),
        stdin: request.stdin.map(|text| setup.template(index, &text)),
        bytes,
    })
}

/// Time to start and reap a program that does nothing, s: the median of [`TRIALS`] programs.
/// Measured once per process.
fn spawn_cost() -> Option<f64> {
    static COST: OnceLock<Option<f64>> = OnceLock::new();
    *COST.get_or_init(|| {
        let program = ["/bin/true", "/usr/bin/true"]
            .into_iter()
            .find(|path| std::path::Path::new(path).exists())?;
        let mut times = Vec::new();
        for _ in 0..TRIALS {
            let from = Instant::now();
            let mut command = Command::new(program);
            let mut child = Program::start(&mut command).ok()?;
            child.write(&[], true);
            child.reap();
            times.push(from.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        times.get(TRIALS / 2).copied()
    })
}

/// A tester: its long-lived programs, one per operation, and the group of its programs, if they
/// are limited.
pub struct Tester {
    driver: Arc<Exec>,
    programs: Vec<Option<(Program, u32)>>,
    group: Option<ProgramGroup>,
    sessions: u32,
}

impl Drop for Tester {
    fn drop(&mut self) {
        for (program, _) in self.programs.iter_mut().flatten() {
            program.close();
        }
    }
}

impl BlockingTester for Tester {
    fn operate(&mut self, request: &Request<'_>, attempt: &mut Attempt, limit: &Limit<'_>) {
        match self.driver.mode {
            Mode::PerTransaction => {
                run_program(&self.driver, self.group.as_mut(), request, attempt, limit);
            }
            Mode::LongLived => self.send_request(request, attempt, limit),
        }
    }
}

impl Exec {
    fn start(
        &self,
        group: Option<&ProgramGroup>,
        request: &Request<'_>,
        attempt: &mut Attempt,
    ) -> Option<Program> {
        let filled = |template: &Template| {
            let mut text = Vec::new();
            template.fill(&request.fill, &mut text);
            OsString::from_vec(text)
        };
        let mut words = self.operations[request.operation].command.iter().map(filled);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        command.env("PLIMSOLL_TESTER", request.fill.tester.to_string());
        command.env("PLIMSOLL_N", request.fill.n.to_string());
        command.env("PLIMSOLL_ENDPOINT", request.fill.endpoint);
        for (name, template) in &self.env {
            command.env(name, filled(template));
        }
        if let Some(directory) = &self.cwd {
            command.current_dir(directory);
        }
        if let Some(group) = group {
            group.admit(&mut command);
        }
        attempt.waiting = Waiting::Connect;
        attempt.begin();
        match Program::start(&mut command) {
            Ok(program) => {
                attempt.connected = attempt.now();
                attempt.waiting = Waiting::FirstByte;
                Some(program)
            }
            Err(error) => {
                let code = match error.kind() {
                    std::io::ErrorKind::NotFound => "not found",
                    std::io::ErrorKind::PermissionDenied => "not executable",
                    _ => "cannot start",
                };
                attempt.finish_text(Outcome::Error, code);
                let name = command.get_program().to_string_lossy().into_owned();
                attempt.note = Some(format!("the program \"{name}\" cannot be started: {error}"));
                None
            }
        }
    }

    /// Copies a report to `attempt`; returns false if the program reports a failure.
    fn apply(&self, report: &Report, operation: &Operation, attempt: &mut Attempt) -> bool {
        attempt.payload = if let Bytes::Fixed(bytes) = operation.bytes {
            bytes
        } else {
            report.bytes
        };
        attempt.items = report.items;
        for (name, &value) in report.metrics.iter().take(MAX_METRICS) {
            let name = attempt.code_of(name);
            attempt.metrics.push((name, value));
        }
        if let (Some(start), Some(end)) = (report.start_ns, report.end_ns)
            && end >= start
        {
            attempt
                .metrics
                .push((self.names.exact, (end - start) as f64 * 1e-9));
        }
        report.ok != Some(false)
    }

    fn estimate(&self, attempt: &mut Attempt) {
        if let Some(spawn_s) = self.spawn_s
            && !attempt.metrics.iter().any(|(name, _)| *name == self.names.exact)
        {
            let whole_s = (attempt.end - attempt.start) as f64 * 1e-9;
            attempt
                .metrics
                .push((self.names.estimated, (whole_s - spawn_s).max(0.0)));
        }
    }
}

/// The report in the last line of an output that is one.
fn last_report(output: &[u8]) -> Option<Report> {
    output.rsplit(|&byte| byte == b'\n').find_map(parse_report)
}

fn parse_report(line: &[u8]) -> Option<Report> {
    let line = line.trim_ascii();
    line.starts_with(b"{")
        .then(|| serde_json::from_slice(line).ok())?
}

/// The last three lines that are not empty, each cut to 300 characters, separated by " / ".
fn last_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text
        .lines()
        .rev()
        .filter(|line| !line.trim().is_empty())
        .take(3)
        .collect();
    let lines: Vec<String> = lines
        .into_iter()
        .rev()
        .map(|line| line.chars().take(300).collect())
        .collect();
    lines.join(" / ")
}

/// Runs a program for one transaction.
fn run_program(
    driver: &Exec,
    group: Option<&mut ProgramGroup>,
    request: &Request<'_>,
    attempt: &mut Attempt,
    limit: &Limit<'_>,
) {
    let Some(mut program) = driver.start(group.as_deref(), request, attempt) else {
        return;
    };
    let operation = &driver.operations[request.operation];
    let mut input = Vec::new();
    if let Some(stdin) = &operation.stdin {
        stdin.fill(&request.fill, &mut input);
    }
    program.write(&input, true);
    loop {
        let status = program.watch(limit);
        note_first_byte(&program, attempt);
        match status {
            ProgramStatus::Moved => {}
            ProgramStatus::Ended => break,
            ProgramStatus::Due(due) => {
                limit.finish(attempt, due);
                program.end();
                return;
            }
        }
    }
    attempt.end = attempt.now();
    let exit = program.reap();
    program.read_available();
    note_first_byte(&program, attempt);
    let how = limited::word(&exit, group);
    conclude(driver, operation, &program, (&exit, &how), attempt);
}

fn note_first_byte(program: &Program, attempt: &mut Attempt) {
    if program.out.total > 0 && attempt.waiting == Waiting::FirstByte {
        attempt.first_byte = attempt.now();
        attempt.waiting = Waiting::Body;
    }
}

/// Sets outcome, code and metrics of a transaction whose program has ended. `how`: its code if it
/// failed.
fn conclude(
    driver: &Exec,
    operation: &Operation,
    program: &Program,
    (exit, how): (&ProgramExit, &str),
    attempt: &mut Attempt,
) {
    // Output that was in the pipe when the program ended was written before its end.
    attempt.first_byte = attempt.first_byte.min(attempt.end);
    attempt.metrics.push((driver.names.cpu, exit.cpu_s));
    attempt.metrics.push((driver.names.rss, exit.max_rss as f64));
    let mut missing = None;
    let mut failure_code = None;
    match &operation.bytes {
        Bytes::None => {}
        Bytes::Fixed(bytes) => attempt.payload = *bytes,
        Bytes::Regex(regex) => match last_number(regex, program.out.bytes()) {
            Some(bytes) => attempt.payload = bytes,
            None => missing = Some("no byte count"),
        },
        Bytes::Json => match last_report(program.out.bytes()) {
            Some(report) => {
                let ok = driver.apply(&report, operation, attempt);
                failure_code = (!ok).then_some(report.code);
            }
            None => missing = Some("no report"),
        },
    }
    driver.estimate(attempt);
    let code = |text: &str, attempt: &Attempt| attempt.code_of(text);
    if !exit.is_success() {
        let text = failure_code
            .filter(|text| !text.is_empty())
            .unwrap_or_else(|| how.to_owned());
        let number = code(&text, attempt);
        attempt.conclude(Outcome::Error, number);
        attempt.note = Some(format!(
            "a client program failed ({how}): {}",
            last_lines(program.err.bytes())
        ));
    } else if let Some(text) = failure_code {
        let number = code(if text.is_empty() { "failed" } else { &text }, attempt);
        attempt.conclude(Outcome::Error, number);
    } else if let Some(missing) = missing {
        let number = code(missing, attempt);
        attempt.conclude(Outcome::Wrong, number);
    } else {
        if !matches!(operation.bytes, Bytes::Json) {
            attempt.items = 1;
        }
        attempt.conclude(Outcome::Ok, Code::NONE);
    }
}

/// The number in the last match, because a program that shows its progress prints the total at the
/// end.
fn last_number(regex: &Regex, output: &[u8]) -> Option<u64> {
    let captures = regex.captures_iter(output).last()?;
    std::str::from_utf8(captures.get(1)?.as_bytes())
        .ok()?
        .trim()
        .parse()
        .ok()
}

impl Tester {
    /// Carries out one transaction with a long-lived program.
    fn send_request(&mut self, request: &Request<'_>, attempt: &mut Attempt, limit: &Limit<'_>) {
        let driver = Arc::clone(&self.driver);
        let operation = request.operation;
        let (mut program, session) = if let Some(running) = self.programs[operation].take() {
            attempt.begin();
            running
        } else {
            let Some(program) = driver.start(self.group.as_ref(), request, attempt) else {
                return;
            };
            self.sessions += 1;
            (program, self.sessions)
        };
        attempt.session = session;
        attempt.waiting = Waiting::FirstByte;
        // Output since the last report is not the response to this request.
        program.read_available();
        while program.out.take_line().is_some() {}
        let fill = &request.fill;
        let mut line =
            serde_json::json!({"n": fill.n, "tester": fill.tester, "endpoint": fill.endpoint}).to_string();
        line.push('\n');
        program.write(line.as_bytes(), false);
        loop {
            if let Some(report) = next_report(&mut program) {
                attempt.end = attempt.now();
                attempt.first_byte = attempt.end;
                let ok = driver.apply(&report, &driver.operations[operation], attempt);
                let text = if ok || !report.code.is_empty() {
                    report.code.as_str()
                } else {
                    "failed"
                };
                let code = attempt.code_of(text);
                attempt.conclude(if ok { Outcome::Ok } else { Outcome::Error }, code);
                self.programs[operation] = Some((program, session));
                return;
            }
            match program.watch(limit) {
                ProgramStatus::Moved => {}
                ProgramStatus::Ended => {
                    program.read_available();
                    if memchr::memchr(b'\n', program.out.bytes()).is_some() {
                        // The last report is read first. The next transaction detects that the
                        // program has ended.
                        continue;
                    }
                    let exit = program.reap();
                    let how = limited::word(&exit, self.group.as_mut());
                    attempt.finish_text(Outcome::Error, &how);
                    let text = last_lines(program.err.bytes());
                    attempt.note = Some(format!("a long-lived program ended ({how}): {text}"));
                    return;
                }
                ProgramStatus::Due(due) => {
                    limit.finish(attempt, due);
                    program.end();
                    return;
                }
            }
        }
    }
}

fn next_report(program: &mut Program) -> Option<Report> {
    while let Some(line) = program.out.take_line() {
        if let Some(report) = parse_report(&line) {
            return Some(report);
        }
    }
    None
}
