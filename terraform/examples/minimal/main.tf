# The minimum: buckets, a database, an EMR Serverless application. The account's administrators can start jobs; other users need the caller role
# (see ../complete).

terraform {
  required_version = ">= 1.9.0"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.0.0, < 7.0.0"
    }
  }
}

provider "aws" {}

module "compactor" {
  source = "../../"

  name     = "compactor-dev"
  database = { name = "school" }
}

output "compactor_yaml" {
  description = "The first lines of compactor.yaml."
  value       = <<-EOT
    warehouse: ${module.compactor.warehouse}
    catalog: {type: glue, database: ${module.compactor.databases.name}}
  EOT
}

output "application_id" {
  description = "The application that runs jobs."
  value       = module.compactor.application_id
}

output "job_role_arn" {
  description = "The role of jobs."
  value       = module.compactor.job_role_arn
}
