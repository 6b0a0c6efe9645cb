//! The bearer token of requests.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::setup_error::SetupError;

/// Interval at which the file of a token is checked for changes.
const TOKEN_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A bearer token in a file, which is read again when the file changes, because tokens of grids are
/// valid for minutes.
pub(super) struct Token {
    file: PathBuf,
    state: Mutex<TokenState>,
}

struct TokenState {
    checked: Instant,
    modified: Option<SystemTime>,
    header: Arc<[u8]>,
}

impl Token {
    /// Reads the token.
    pub(super) fn open(file: PathBuf) -> Result<Self, SetupError> {
        let (modified, header) = Self::read(&file).map_err(|source| SetupError::File {
            key: "token_file",
            path: file.clone(),
            source,
        })?;
        Ok(Self {
            state: Mutex::new(TokenState {
                checked: Instant::now(),
                modified,
                header,
            }),
            file,
        })
    }

    fn read(file: &PathBuf) -> std::io::Result<(Option<SystemTime>, Arc<[u8]>)> {
        let modified = std::fs::metadata(file)?.modified().ok();
        let token = std::fs::read_to_string(file)?;
        Ok((modified, format!("Bearer {}", token.trim()).into_bytes().into()))
    }

    /// Value of the header Authorization. If the file cannot be read any more, the last token is
    /// used, and the service will refuse it.
    pub(super) fn header(&self) -> Arc<[u8]> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.checked.elapsed() >= TOKEN_CHECK_INTERVAL {
            state.checked = Instant::now();
            let modified = std::fs::metadata(&self.file)
                .and_then(|data| data.modified())
                .ok();
            if modified != state.modified
                && let Ok((modified, header)) = Self::read(&self.file)
            {
                (state.modified, state.header) = (modified, header);
            }
        }
        Arc::clone(&state.header)
    }
}
