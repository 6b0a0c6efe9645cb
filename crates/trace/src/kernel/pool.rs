//! What threads may share or have for themselves: tables of descriptors, working directories.

/// Values, each of one thread or of several; the places of those that nobody has any more are used
/// again.
#[derive(Debug)]
pub(super) struct Pool<T> {
    all: Vec<(T, u32)>,
    free: Vec<usize>,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T: Default> Pool<T> {
    /// One more, of one thread. Gives its place.
    pub(super) fn add(&mut self, value: T) -> usize {
        if let Some(place) = self.free.pop() {
            self.all[place] = (value, 1);
            return place;
        }
        self.all.push((value, 1));
        self.all.len() - 1
    }

    /// The value at a place that was given out and not left since.
    pub(super) fn get(&mut self, place: usize) -> &mut T {
        &mut self.all[place].0
    }

    /// One thread more has it.
    pub(super) fn share(&mut self, place: usize) {
        self.all[place].1 += 1;
    }

    /// Whether several threads have it.
    pub(super) fn is_shared(&self, place: usize) -> bool {
        self.all[place].1 > 1
    }

    /// One thread less has it. Gives the value when that was the last one.
    pub(super) fn leave(&mut self, place: usize) -> Option<T> {
        let (value, threads) = &mut self.all[place];
        *threads = threads.saturating_sub(1);
        if *threads > 0 {
            return None;
        }
        self.free.push(place);
        Some(std::mem::take(value))
    }
}
