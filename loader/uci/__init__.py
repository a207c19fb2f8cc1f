"""UCI engines in processes of their own: started, asked, never waited for without a deadline."""
