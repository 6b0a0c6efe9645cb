//! The recording of a program or of processes with one of the recorders.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;

use plimsoll_trace::header::Footer;

use crate::error::{CaptureError, RequestError};
use crate::left::{self, Remark};
use crate::request::{RecordRequest, Source};
use crate::strace::Strace;
use crate::{follow, output, preload, recorder_directory};

/// A recording whose request has been checked.
pub struct Recording<'r> {
    request: &'r RecordRequest,
    recorder: Recorder,
}

enum Recorder {
    Strace(Strace),
    /// Contains the absolute path of the output.
    Preload(PathBuf),
}

impl<'r> Recording<'r> {
    /// Checks a request. No file is written and no program is started, except `strace -V`.
    ///
    /// # Errors
    /// The request is refused ([`CaptureError::Request`], [`CaptureError::Output`]), or this host
    /// or this build has no such recorder.
    pub fn new(request: &'r RecordRequest) -> Result<Self, CaptureError> {
        if request.command.is_empty() == request.pids.is_empty() {
            return Err(RequestError::ProgramOrProcess.into());
        }
        if !request.force {
            output::check_new(&request.output)?;
        }
        output::check(&request.output, [])?;
        request.check()?;
        let recorder = match request.source {
            Source::Strace => Recorder::Strace(Strace::find(request.one_core)?),
            Source::Preload => {
                recorder_directory::check_library()?;
                Recorder::Preload(std::path::absolute(&request.output).map_err(CaptureError::Io)?)
            }
        };
        Ok(Self { request, recorder })
    }

    /// Remarks for the user on earlier recordings with the same output. The caller prints them
    /// before [`Recording::run`].
    pub fn remarks(&self) -> Vec<Remark> {
        match &self.recorder {
            Recorder::Strace(_) => Vec::new(),
            Recorder::Preload(output) => left::abandoned(output)
                .into_iter()
                .map(Remark::Abandoned)
                .collect(),
        }
    }

    /// Records until the program ends, until the time of the request has passed, or until strace is
    /// interrupted, and writes the trace file. `listen` starts to receive the signals that ask this
    /// process to end. It is called before the program is started: such a signal must not end this
    /// process before the last calls are written.
    ///
    /// Returns the footer of the trace, which contains the exit status of the program.
    ///
    /// # Errors
    /// [`CaptureError`]. The output is not changed then, or it is complete and lacks only the
    /// calibration after the recording.
    pub fn run(self, listen: impl FnOnce() -> io::Result<Receiver<i32>>) -> Result<Footer, CaptureError> {
        match self.recorder {
            Recorder::Strace(strace) => follow::record(self.request, &strace, listen),
            Recorder::Preload(output) => preload::record(self.request, &output, listen),
        }
    }
}
