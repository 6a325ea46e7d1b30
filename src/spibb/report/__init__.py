"""What people look at: summaries, pictures, pages."""
